"""The coordinator of a search: gives trials to blocks, reads their validations, and ends them.

It trains nothing itself and imports no TensorFlow. All it knows is in the study and in the records of
the trials, so it may be killed at any moment.
"""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol

from optuna.trial import TrialState

from cloudgan.core.errors import CloudganError, ConfigError, Interrupted, TryAgain
from cloudgan.core.file_lock import holder
from cloudgan.core.progress import Progress
from cloudgan.core.tail import tail_lines
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Checkpointed, RunRecord, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import SearchConfig
from cloudgan.schema.search_exchange import TrialRun, TrialStates
from cloudgan.search.blocks import LOG
from cloudgan.search.folder import SearchFolder
from cloudgan.search.objectives import (
    objective_median,
    objective_values,
    second_objective,
)
from cloudgan.search.study import SearchStudy

_MOST_ATTEMPTS = 3
_MOST_FAILURES = 5
_BAD_INPUT, _NO_PROGRESS = 2, 76
_HOUR_SECONDS = 3600.0


class TrialBlock(Protocol):
    """What trains one trial after another: `search.blocks.Block` or `search.pod_blocks.PodBlock`."""

    @property
    def index(self) -> int | str:
        """Its unique name."""

    @property
    def is_ready(self) -> bool:
        """Whether it waits for a trial."""

    def start(self, run: TrialRun, path: Path) -> None:
        """Trains a run of a trial, whose folder `path` holds its run.yaml."""

    def ended(self) -> int | None:
        """Returns the exit code of the training; None while it runs."""

    def request_stop(self) -> None:
        """Asks the run to save a checkpoint and to stop."""


class TrialBlocks(Protocol):
    """All blocks of a search: `search.blocks.LocalBlocks` or `search.pod_blocks.PodBlocks`."""

    @property
    def poll_seconds(self) -> float:
        """Pause between two looks at the blocks."""

    def current(self) -> Sequence[TrialBlock]:
        """Returns the blocks of this moment."""

    def training(self) -> Mapping[TrialRun, int | str]:
        """Returns the blocks that train what an earlier coordinator gave them, by run."""

    def run_threads(self) -> int | None:
        """Returns the threads of each trial; None: the trial's own."""

    def note(self, states: TrialStates) -> None:
        """Takes the states of the trials after each look at the blocks."""

    def close(self, *, finished: bool) -> None:
        """Leaves the blocks at the end of a search, or of a coordinator that will continue it."""


class Coordinator:
    """Runs the trials of a search until all are finished."""

    def __init__(
        self,
        folder: SearchFolder,
        config: SearchConfig,
        study: SearchStudy,
        blocks: TrialBlocks,
        progress: Progress,
        *,
        max_hours: float | None = None,
        budget_usd: float | None = None,
    ) -> None:
        """Prepares the coordinator.

        Args:
            folder: Of the search.
            config: Of the search.
            study: Its history.
            blocks: Train the runs.
            progress: Receives one line for each finished trial.
            max_hours: Time of this coordinator after which it ends the search; None: no limit.
            budget_usd: The same for the price of the machine for the time of all coordinators.
        """
        self._folder, self._config, self._study = folder, config, study
        self._blocks, self._progress = blocks, progress
        self._waiting = study.unfinished_runs()
        self._on: dict[int | str, TrialRun] = {}
        self._pruned: set[int] = set()
        self._held: set[TrialRun] = set()
        self._current: Sequence[TrialBlock] = ()
        self._requested_signal: int | None = None
        self._max_hours, self._budget_usd = max_hours, budget_usd
        self._began_seconds, self._earlier_seconds = time.monotonic(), study.machine_seconds

    def run(self) -> str:
        """Asks, trains and ends trials.

        Returns:
            The limit that ended the search before its last trial; empty: none did.

        Raises:
            CloudganError: Five trials in a row failed.
            Interrupted: Ctrl-C; the running trials saved a checkpoint.
            TryAgain: SIGTERM; the running trials saved a checkpoint.
        """
        ended = len(self._study.trials()) - len(self._study.unfinished())
        self._progress.start("search", self._study.size, "trials", done=ended)
        before = {n: signal.signal(n, self._request) for n in (signal.SIGINT, signal.SIGTERM)}
        finished = True
        try:
            for trial in self._study.unfinished():  # a coordinator was killed before it ended them
                self._end_after_all_runs(trial.number)
            self._adopt()
            limit = ""
            while self._requested_signal is None and not limit and self._step():
                time.sleep(self._blocks.poll_seconds)
                limit = self._reached_limit()
            finished = self._requested_signal is None
        except TryAgain:
            finished = False
            raise
        finally:
            self._blocks.close(finished=finished)
            self._note_time()
            for number, handler in before.items():
                signal.signal(number, handler)
        again = f"`cloudgan search {self._folder.path}` continues it"
        if self._requested_signal == signal.SIGINT:
            raise Interrupted(f"the search stopped; {again}")
        if self._requested_signal == signal.SIGTERM:
            raise TryAgain(f"the search stopped; {again}")
        return limit

    def _machine_seconds(self) -> float:
        """Time of all coordinators of this search."""
        return self._earlier_seconds + time.monotonic() - self._began_seconds

    def _note_time(self) -> None:
        self._study.note_machine_seconds(self._machine_seconds())

    def _reached_limit(self) -> str:
        """Returns the limit that ends the search; empty: none."""
        hours, usd, price = self._max_hours, self._budget_usd, self._config.usd_per_hour
        spent_hours = (time.monotonic() - self._began_seconds) / _HOUR_SECONDS
        if hours is not None and spent_hours >= hours:
            return f"--max-hours={hours:g}"
        if usd is None or price is None:
            return ""
        spent_usd = self._machine_seconds() / _HOUR_SECONDS * price
        return f"--budget-usd={usd:g}" if spent_usd >= usd else ""

    def _request(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._requested_signal = number

    def _adopt(self) -> None:
        """Follows the runs that blocks went on with while there was no coordinator."""
        blocks, training = self._blocks.current(), self._blocks.training()
        known = {block.index for block in blocks}
        for run in tuple(self._waiting):
            block = training.get(run)
            if block in known and block is not None:
                self._waiting.remove(run)
                self._on[block] = run

    def _step(self) -> bool:
        """Starts and follows trials; returns whether any are left."""
        self._current = blocks = self._blocks.current()
        are_left = self._start_trials(blocks)
        for block in blocks:
            if block.index in self._on:
                self._follow(block, self._on[block.index])
        self._blocks.note(self._study.states())
        return are_left or bool(self._on or self._waiting)

    def _start_trials(self, blocks: Sequence[TrialBlock]) -> bool:
        """Gives a run to each free block; returns whether the search has more."""
        for block in blocks:
            if block.index in self._on or not block.is_ready:
                continue
            if not self._waiting:
                trial = self._study.ask()
                if trial is None:
                    return False
                self._waiting += self._config.runs_of(trial.number)
            run = next((run for run in self._waiting if not self._is_held(run)), None)
            if run is not None:
                self._waiting.remove(run)
                self._start(block, run)
        return bool(self._waiting) or self._study.has_more

    def _is_held(self, run: TrialRun) -> bool:
        """Whether another process still trains a run, such as one whose coordinator was killed."""
        process = holder(RunFolder(self._folder.run(run)).lock_file)
        if process and run not in self._held:
            self._held.add(run)
            self._progress.say(
                f"trial {run.trial}: waits for process {process}, which still trains it"
            )
        return process is not None

    def _start(self, block: TrialBlock, run: TrialRun) -> None:
        path = self._folder.run(run)
        folder = RunFolder(path)
        try:
            if folder.read_config() is None:
                folder.write_config(self._run_config(run))
        except ConfigError as error:
            self._fail(run, str(error))
            return
        saved = [line.step for line in self._record(run).lines if isinstance(line, Checkpointed)]
        self._study.count_attempt(run, max(saved, default=0))
        block.start(run, path)
        self._on[block.index] = run

    def _run_config(self, run: TrialRun) -> RunConfig:
        point = self._study.trials()[run.trial].params
        config = self._config.run_config(point, run.name, run.fold)
        threads = self._blocks.run_threads()
        if config.training.threads or threads is None:
            return config
        return config.model_copy(
            update={"training": config.training.model_copy(update={"threads": threads})}
        )

    def _follow(self, block: TrialBlock, run: TrialRun) -> None:
        code = block.ended()
        self._report(block, run)
        if code is not None:
            del self._on[block.index]
            self._note_time()
            self._end(run, code)

    def _report(self, block: TrialBlock, run: TrialRun) -> None:
        """Compares the validations of a trial without folds with those of other trials."""
        if self._config.prune == "none" or run.fold is not None or run.trial in self._pruned:
            return
        for epoch, value in objective_values(self._record(run), self._config.objective):
            if math.isfinite(value) and self._study.report(run.trial, epoch, value):
                self._pruned.add(run.trial)
                block.request_stop()
                return

    def _record(self, run: TrialRun) -> RunRecord:
        return read_if_whole(RunFolder(self._folder.run(run)).record_file)

    def _end(self, run: TrialRun, code: int) -> None:
        if run.trial in self._pruned:
            self._prune(run.trial)
            return
        if self._study.trials()[run.trial].state.is_finished():  # another fold ended it
            return
        if code == 0:
            self._complete(run)
            return
        may_continue = code not in {1, _BAD_INPUT, _NO_PROGRESS}  # killed, or asked to try again
        if may_continue and self._study.attempts(run) < _MOST_ATTEMPTS:
            self._waiting.append(run)
            return
        self._fail(run, _last_error(self._folder.run(run), code))

    def _complete(self, run: TrialRun) -> None:
        """Takes the objectives of a run; a trial with a run without a number failed."""
        record, names = self._record(run), self._config.objectives
        found = [objective_median(record, self._config.objective)]
        if self._config.second:
            found.append(second_objective(self._config, record))
        values = [value for value in found if value is not None]
        if len(values) < len(names):
            missing = names[found.index(None)]
            self._fail(run, f"no finite {missing} was measured")
            return
        self._study.note_objectives(run, values)
        self._end_after_all_runs(run.trial)

    def _end_after_all_runs(self, number: int) -> None:
        """Ends a trial with the objectives of its runs; compares it with others while some are missing."""
        ended, names = self._study.run_objectives(number), self._config.objectives
        if len(ended) < self._config.folds:
            self._compare_folds(number, ended)
            return
        means = [statistics.fmean(one[0] for one in ended.values())]
        # Time and price of a trial are those of all its runs.
        means += [math.fsum(one[1] for one in ended.values()) for _ in names[1:]]
        self._study.complete(number, means)
        pairs = zip(names, means, strict=True)
        self._say(number, ", ".join(f"{name} {value:.4g}" for name, value in pairs))

    def _compare_folds(self, number: int, ended: Mapping[TrialRun, Sequence[float]]) -> None:
        """Compares the mean of the first folds of a trial with that of other trials."""
        if self._config.prune == "none":
            return
        values = []
        for run in self._config.runs_of(number):
            if run not in ended:
                return
            values.append(ended[run][0])
            if self._study.report(number, len(values) - 1, statistics.fmean(values)):
                self._prune(number)
                return

    def _prune(self, number: int) -> None:
        self._study.prune(number)
        self._withdraw(number)
        self._say(number, "pruned")

    def _withdraw(self, number: int) -> None:
        """Trains no further run of a trial that has ended."""
        self._waiting = [run for run in self._waiting if run.trial != number]
        for block in self._current:
            if block.index in self._on and self._on[block.index].trial == number:
                block.request_stop()

    def _fail(self, run: TrialRun, reason: str) -> None:
        """Ends a trial without an objective: none of its folds is left out."""
        self._study.fail(run.trial, reason if run.fold is None else f"fold {run.fold}: {reason}")
        self._withdraw(run.trial)
        self._say(run.trial, f"failed: {reason}")
        ended = [trial for trial in self._study.trials() if trial.state.is_finished()]
        last = ended[-_MOST_FAILURES:]
        if len(last) == _MOST_FAILURES and all(one.state == TrialState.FAIL for one in last):
            raise CloudganError(
                f"the last {_MOST_FAILURES} trials failed, the newest with: {reason}. Read"
                f" {self._folder.run(run) / LOG}"
            )

    def _say(self, number: int, what: str) -> None:
        point = self._study.trials()[number].params
        values = ", ".join(
            f"{key.rpartition('.')[2]} {_short(value)}" for key, value in point.items()
        )
        self._progress.say(f"trial {number}: {what} ({values})")
        self._progress.advance(1)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _last_error(path: Path, code: int) -> str:
    lines = tail_lines(path / LOG)
    said = [line.removeprefix("cloudgan: ") for line in lines if line.startswith("cloudgan: ")]
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return said[-1] if said else f"its process ended with {how}"
