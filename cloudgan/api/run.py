"""A run: the value that `train` returns and `generate`, `validate` and `cost` take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.reports.charts import Axis, Line, Plot, Style
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import Block, Section, fragment
from cloudgan.reports.table import Table
from cloudgan.reports.words import in_words
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder, Step, find_run_folder


@dataclass(frozen=True)
class Run:
    """A run on this machine's disk; a notebook shows its facts and its losses.

    Attributes:
        path: Folder of the run.
    """

    path: Path

    def __fspath__(self) -> str:
        """Returns its folder: a run can be given where a path can."""
        return str(self.path)

    @cached_property
    def folder(self) -> RunFolder:
        """The names of the files of the run."""
        return RunFolder(self.path)

    @property
    def config(self) -> RunConfig:
        """The run's configuration (run.yaml).

        Raises:
            DataError: The folder holds no run.yaml.
        """
        return self.folder.config()

    @property
    def record(self) -> RunRecord:
        """The run's record (record.jsonl), read again at each access.

        Raises:
            DataError: The folder holds no record, or a line is damaged.
        """
        return record.read(self.folder.record_file)

    def sample(
        self,
        energy_gev: float | tuple[float, float],
        theta_deg: float | tuple[float, float],
        n: int = 1,
        *,
        seed: int = 0,
        extrapolate: bool = False,
        step: Step = None,
        cell: str | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Generates showers in memory, the same bits as `generate` with these ranges and this seed.

        Args:
            energy_gev: Energy of the primary in GeV; a pair: a range, flat.
            theta_deg: Polar angle in degrees; a pair: a range, flat.
            n: Number of showers.
            seed: The same seed gives the same showers.
            extrapolate: Accept what is beyond the trained range.
            step: Checkpoint: the number of its step (0 is untrained) or "best". Default: the newest.
            cell: Of a grid: as of `generate`.
            progress: Receives the showers. Default: a line in a notebook, else nothing.

        Returns:
            Energies of the cells in GeV, (n, x, y, z).

        Raises:
            ConfigError: Energy or angle is beyond the trained range.
            DataError: The run has no such checkpoint.
        """
        from cloudgan.api.showers import drawn, load_generator
        from cloudgan.coevolution.samples import has_other_samples

        ranges.Range(1, ranges.MAX_SHOWERS).check("showers", n)
        ranges.Range(0, ranges.MAX_SEED).check("seed", seed)
        if has_other_samples(self.folder):
            raise ConfigError(
                f"{self.path} generates samples of another task, not showers: cloudgan generate {self.path} samples.npz"
            )
        progress = progress or usual_progress()
        generator = load_generator(self.folder, step, progress, cell=cell)
        energies, thetas = (
            value if isinstance(value, tuple) else (value, value)
            for value in (energy_gev, theta_deg)
        )
        blocks = drawn(
            generator, n, (energies, thetas), seed, extrapolate=extrapolate, progress=progress
        )
        found = np.empty((n, *generator.preset.image_shape), np.float32)
        first = 0
        for block in blocks:
            found[first : first + len(block)] = block.ecal_gev
            first += len(block)
        return found

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    def _repr_html_(self) -> str:
        found = self.record
        blocks: tuple[Block, ...] = (_facts(found),)
        if found.epochs():
            blocks += (loss_chart(found),)
        return fragment((Section(f"Run {self.path.name}", blocks),))


def open_run(run: Run | RunFolder | str | Path) -> Run:
    """Returns a run on this machine's disk: a training, a grid, a search, one of its trials, or a launched run.

    Args:
        run: Its name, such as ``mine`` or ``search/trials/0007``, or its folder, such as ``runs/mine``.

    Raises:
        ConfigError: There is no such run; names the nearest one.
    """
    if isinstance(run, Run):
        return run
    return Run((run if isinstance(run, RunFolder) else find_run_folder(run)).path)


def loss_chart(found: RunRecord) -> Plot:
    """Returns the weighted losses of both networks, in training and on held-out showers."""
    epochs = found.epochs()
    steps = tuple(float(epoch.step) for epoch in epochs)
    lines = []
    for number, name in enumerate(epochs[0].losses):
        trained = tuple(one.losses[name]["total"] for one in epochs)
        lines.append(Line(f"{in_words(name)}, training", steps, trained, style=Style(number)))
        if any(one.held_out_losses for one in epochs):
            held_out = tuple(
                one.held_out_losses[name]["total"] if one.held_out_losses else None
                for one in epochs
            )
            style = Style(number, second=True)
            lines.append(Line(f"{in_words(name)}, held out", steps, held_out, style=style))
    return Plot(
        "Weighted totals", Axis("step"), Axis("loss", log=True), lines=tuple(lines),
        caption="Weighted sum of the terms of each network's loss, mean over each epoch. The losses of a GAN"
        " do not fall to zero: the two networks balance each other.",
    )  # fmt: skip


def _facts(found: RunRecord) -> Table:
    started, stopped = found.started(), found.stopped()
    epochs = found.epochs()
    rows = (
        ("ended", stopped.reason if stopped else None),
        ("step", epochs[-1].step if epochs else None),
        ("epochs", len(epochs)),
        ("training showers", started.training_showers if started else None),
        ("steady epoch (s)", found.steady_epoch_seconds()),
        ("showers per second", found.samples_per_second()),
        ("program time (s)", found.program_seconds()),
    )
    return Table(("figure", "value"), rows, "", "lr")
