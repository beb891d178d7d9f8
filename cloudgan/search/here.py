"""This machine as the place of a search: its folders, its threads, and the limits of its time and price."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence

from cloudgan.core.children import StopSignal
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Checkpointed, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import SearchConfig, TrialRun
from cloudgan.search.blocks import Block, blocks_of_machine, wait_for_trainers
from cloudgan.search.folder import SearchFolder
from cloudgan.search.objectives import machine_seconds
from cloudgan.search.study import SearchStudy, open_study
from cloudgan.search.trial_loop import TrialLoop


class Here:
    """This machine, whose search no other process continues at the same time: its folder is locked."""

    look_seconds = 0.0

    def __init__(
        self,
        folder: SearchFolder,
        config: SearchConfig,
        study: SearchStudy,
        *,
        max_hours: float | None = None,
        budget_usd: float | None = None,
    ) -> None:
        """`max_hours` limits the time of this process, `budget_usd` the price of the time of all processes."""
        self._folder, self._config, self._study = folder, config, study
        self._max_hours, self._budget_usd = max_hours, budget_usd
        # A search that was killed could not note its time: that of its trials is in their records.
        recorded = machine_seconds(folder, config, len(study.trials()))
        self._earlier_seconds = max(study.machine_seconds, math.fsum(recorded.values()))
        self._began_seconds = time.monotonic()

    def folder(self, run: TrialRun) -> RunFolder:
        """Returns the folder of a run."""
        return RunFolder(self._folder.run(run))

    def is_lost(self, run: TrialRun, holder: str) -> bool:
        """Returns True: a holder that is not of this process ended before it began."""
        del run, holder
        return True

    def saved_step(self, run: TrialRun) -> int:
        """Returns the step of the newest checkpoint of a run; 0: none."""
        lines = read_if_whole(self.folder(run).record_file).lines
        return max((line.step for line in lines if isinstance(line, Checkpointed)), default=0)

    def prepare(self, run: TrialRun, config: RunConfig) -> None:
        """Writes run.yaml, with the threads of a block; a single block has all."""
        folder, blocks = self.folder(run), self._config.blocks
        if folder.read_config() is not None:
            return
        if blocks > 1 and not config.training.threads:
            threads = max(1, this_machine().cores // blocks)
            training = config.training.model_copy(update={"threads": threads})
            config = config.model_copy(update={"training": training})
        folder.write_config(config)

    def watch(self, run: TrialRun) -> str:
        """Returns nothing: what trains here is watched by its user."""
        del run
        return ""

    def ended(self, run: TrialRun, *, is_own: bool) -> None:
        """Notes the time until here."""
        del run, is_own
        self.note_time()

    def note_time(self) -> None:
        """Keeps the time of all processes of this search."""
        self._study.note_machine_seconds(self._seconds)

    @property
    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began_seconds

    def limit(self) -> str:
        """Returns the limit that ends the search; empty: none."""
        hours, usd, price = self._max_hours, self._budget_usd, self._config.usd_per_hour
        if hours is not None and time.monotonic() - self._began_seconds >= hours * HOUR_SECONDS:
            return f"--max-hours={hours:g}"
        if usd is None or price is None:
            return ""
        return f"--budget-usd={usd:g}" if self._seconds / HOUR_SECONDS * price >= usd else ""


def train_here(
    folder: SearchFolder,
    config: SearchConfig,
    progress: Progress,
    *,
    blocks: Sequence[Block] = (),
    max_hours: float | None = None,
    budget_usd: float | None = None,
) -> tuple[SearchStudy, str]:
    """Trains the trials of a search on this machine.

    Also returns the limit that ended the search before its last trial; empty: none did.
    """
    study, stop = open_study(folder, config), StopSignal()
    here = Here(folder, config, study, max_hours=max_hours, budget_usd=budget_usd)
    trainers, name = blocks or blocks_of_machine(config.blocks), f"here-{secrets.token_hex(4)}"
    loop = TrialLoop(config, study, trainers, here, progress, name=name, stop=stop)
    ended = sum(trial.state.is_finished() for trial in study.trials())
    progress.start("search", study.size, "trials", done=ended)
    with stop.by_signals(f"the search stopped; `cloudgan search {folder.path}` continues it"):
        runs = [run for trial in study.unfinished() for run in study.runs_of(trial)]
        earlier = [folder.run(run) for run in runs]
        wait_for_trainers(earlier, progress.say, lambda: stop.number is not None)
        try:
            limit = loop.run()
        finally:
            here.note_time()
    return study, limit
