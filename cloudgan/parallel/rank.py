"""One rank of a run with masters and workers: what it is, and the point from which all ranks resume.

The newest checkpoint of the run (a point) names the checkpoint of each worker and of each master below
rank 0 that belongs to it; the ranks resume from the newest one of which every rank has its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from cloudgan.core.errors import DataError, TryAgain
from cloudgan.parallel.trace import Profile
from cloudgan.parallel.update_rules import State
from cloudgan.ranks.layout import Layout, Role, make_layout
from cloudgan.ranks.mpi import ROUND_SECONDS, World
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoint, Checkpoints, record_damaged
from cloudgan.training.quality import QualityHistory

KEPT = 3
"""Checkpoints of a rank: of the complete point, of the one that is not yet complete, and the last."""
_STEP_SECONDS = 60.0
"""A slow step: paper on a few cores."""


@dataclass(frozen=True)
class ResumedSteps:
    """The point from which all ranks resume.

    `has_ended`: the validations until there end the run.
    """

    workers: Sequence[int]
    masters: Sequence[int]
    has_ended: bool = False


@dataclass(frozen=True)
class Rank:
    """A rank of a run.

    The group of a master has all masters. `steps` is where all ranks resume, None for a new run; `point`
    the checkpoint there with the arrays of its update rule, None except on rank 0.
    """

    world: World
    group: World
    layout: Layout
    config: RunConfig
    folder: RunFolder
    profile: Profile
    steps: ResumedSteps | None
    point: tuple[Checkpoint, State] | None

    @classmethod
    def join(
        cls, world: World, config: RunConfig, folder: RunFolder, profile: Profile | None = None
    ) -> Rank:
        """Returns this rank; all ranks call it."""
        layout = make_layout(world.size, config.parallel)
        role = layout.roles[world.rank]
        group = world.split(0 if role.worker is None else layout.master_ranks + role.worker)
        found = world.gather(rank_checkpoints(config, folder, world.rank).all_steps())
        workers = [found[layout.group_of(worker)[0]] for worker in range(layout.workers)]
        masters = [found[rank] for rank in layout.masters if rank]
        point = find_point(config, folder, workers, masters) if world.rank == 0 else None
        state = point[0].state if point else None
        has_ended = QualityHistory(config.training, state).stop is not None
        own = [state.worker_steps, state.master_steps, has_ended] if state else None
        steps = world.gather(own)[0]
        resumed = ResumedSteps(*steps) if steps else None
        return cls(world, group, layout, config, folder, profile or Profile(), resumed, point)

    @property
    def role(self) -> Role:
        """Role of this rank."""
        return self.layout.roles[self.world.rank]

    @property
    def is_leader(self) -> bool:
        """Whether this rank speaks with the master of its worker."""
        return self.role.kind == "leader"

    @property
    def worker(self) -> int:
        """Number of its worker."""
        return self.role.worker or 0

    @property
    def leader(self) -> int:
        """Rank of the leader of its worker; of a master its own."""
        return self.world.rank if self.role.is_master else self.layout.group_of(self.worker)[0]

    @property
    def master(self) -> int:
        """Rank of the master above it."""
        return self.layout.roles[self.leader].parent or 0

    @property
    def siblings(self) -> int:
        """Ranks that exchange with the same master."""
        return len(self.layout.children(self.master))

    @property
    def describes(self) -> bool:
        """Whether this rank describes the run to its master when it joins."""
        return self.layout.children(self.master)[0] == self.world.rank

    @property
    def sends_arrays(self) -> bool:
        """Whether the arrays with which a new run begins reach rank 0 through this rank."""
        return (
            self.steps is None and self.describes and not self.layout.workers_below(self.leader)[0]
        )

    @property
    def first_step(self) -> int:
        """Own steps at which it resumes; 0 for a new run."""
        if self.steps is None:
            return 0
        if self.role.is_master:
            return self.steps.masters[self.layout.masters.index(self.world.rank)]
        return self.steps.workers[self.worker]

    @property
    def own_folder(self) -> RunFolder:
        """Folder of what only this worker or master knows: its record and its checkpoints."""
        return rank_folder(self.folder, self.leader)

    @property
    def round_seconds(self) -> float:
        """Longest wait for an exchange before the time of its steps is known."""
        parallel = self.config.parallel
        updates = parallel.master_sync_every if parallel.masters > 1 else 1
        return max(ROUND_SECONDS, _STEP_SECONDS * parallel.sync_every * updates)

    def checkpoints(self, copier: Executor | None = None) -> Checkpoints:
        """Returns the checkpoints of this worker or master."""
        return rank_checkpoints(self.config, self.folder, self.leader, copier)

    def read_part(self) -> Checkpoint:
        """Reads the own checkpoint of the point from which all ranks resume.

        Raises:
            TryAgain: It is damaged and was set aside: the next start resumes from the point before.
        """
        own = self.checkpoints()
        found, damaged = own.read(self.first_step)
        if found is None:
            gone = f"{own.path_of(self.first_step)} is gone"
            reasons = "; ".join(each.reason for each in damaged) or gone
            raise TryAgain(
                f"{reasons}; start all ranks again: they resume from the checkpoint before"
            )
        return found


def rank_folder(folder: RunFolder, rank: int) -> RunFolder:
    """Returns the folder of what only one rank knows: its record and its checkpoints."""
    return RunFolder(folder.path / "ranks" / f"{rank:03d}")


def rank_url(config: RunConfig, rank: int) -> str:
    """Returns the URL of the copies of a rank's checkpoints; empty: the run has none."""
    url = config.checkpoint.url.rstrip("/")
    return f"{url}/ranks/{rank:03d}" if url else ""


def rank_checkpoints(
    config: RunConfig, folder: RunFolder, rank: int, copier: Executor | None = None
) -> Checkpoints:
    """Returns the checkpoints of what only one rank knows."""
    own, url = rank_folder(folder, rank).checkpoints, rank_url(config, rank)
    return Checkpoints(own, keep=KEPT, url=url, may_rename=True, copier=copier)


def find_point(
    config: RunConfig,
    folder: RunFolder,
    worker_steps: Sequence[Sequence[int]],
    master_steps: Sequence[Sequence[int]] = (),
) -> tuple[Checkpoint, State] | None:
    """Returns the newest checkpoint of the centre that every rank saved, with the rule's arrays.

    Raises:
        DataError: There are checkpoints, and all are damaged or lack the part of a rank.
    """
    centre, rules = Checkpoints.of_run(config, folder), rank_checkpoints(config, folder, 0)
    below: int | None = None
    while True:
        found, damaged = centre.newest(below=below)
        record_damaged(folder, damaged)
        if found is None and below is not None:
            raise DataError(
                f"{folder.checkpoints}: no checkpoint has its part in every folder below"
                f" {folder.path / 'ranks'}; restore them, or start again with another --run"
            )
        if found is None:
            return None
        # A master begins from the run's centre and saves no step 0.
        have = [*worker_steps, *({0, *steps} for steps in master_steps)]
        steps = (*found.state.worker_steps, *found.state.master_steps)
        is_whole = len(steps) == len(have) and all(
            step in there for step, there in zip(steps, have, strict=True)
        )
        if is_whole:
            own, damaged = rules.read(found.state.step)
            record_damaged(folder, damaged)
            if own:
                return found, dict(own.arrays)
        below = found.state.step
