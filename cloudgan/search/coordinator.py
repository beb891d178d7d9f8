"""The coordinator of a search: gives trials to blocks, reads their validations, and ends them.

It trains nothing itself and imports no TensorFlow. All it knows is in the study and in the records of
the trials, so it may be killed at any moment.
"""

from __future__ import annotations

import math
import signal
import time
from typing import TYPE_CHECKING, Protocol

from optuna.trial import TrialState

from cloudgan.core.errors import CloudganError, ConfigError, Interrupted, TryAgain
from cloudgan.core.tail import tail_lines
from cloudgan.schema.record import Checkpointed, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.search.blocks import LOG
from cloudgan.search.objectives import second_objective, validation_median
from cloudgan.search.study import attempts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from optuna.trial import FrozenTrial

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import RunRecord
    from cloudgan.schema.search import SearchConfig
    from cloudgan.search.study import SearchFolder, SearchStudy

_MOST_ATTEMPTS = 3
_MOST_FAILURES = 5
_BAD_INPUT, _NO_PROGRESS = 2, 76


class TrialBlock(Protocol):
    """What trains one trial after another: `search.blocks.Block` or `search.pod_blocks.PodBlock`."""

    @property
    def index(self) -> int | str:
        """Its unique name."""

    @property
    def is_ready(self) -> bool:
        """Whether it waits for a trial."""

    def start(self, run: Path) -> None:
        """Trains the run in the folder `run`, which holds its run.yaml."""

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

    def training(self) -> Mapping[int, int | str]:
        """Returns the blocks that train trials of an earlier coordinator, by trial."""

    def run_threads(self) -> int | None:
        """Returns the threads of each trial; None: the trial's own."""

    def note(self, states: Mapping[int, str]) -> None:
        """Takes the states of all trials."""

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
    ) -> None:
        """Prepares the coordinator; `progress` receives one line for each finished trial."""
        self._folder, self._config, self._study = folder, config, study
        self._blocks, self._progress = blocks, progress
        self._waiting = study.unfinished()
        self._on: dict[int | str, int] = {}
        self._pruned: set[int] = set()
        self._requested_signal: int | None = None

    def run(self) -> None:
        """Asks, trains and ends trials.

        Raises:
            CloudganError: Five trials in a row failed.
            Interrupted: Ctrl-C; the running trials saved a checkpoint.
            TryAgain: SIGTERM; the running trials saved a checkpoint.
        """
        self._progress.start("trials", self._study.size, "trials")
        self._progress.advance(len(self._study.trials()) - len(self._waiting))
        before = {n: signal.signal(n, self._request) for n in (signal.SIGINT, signal.SIGTERM)}
        finished = True
        try:
            self._adopt()
            while self._requested_signal is None and self._step():
                time.sleep(self._blocks.poll_seconds)
            finished = self._requested_signal is None
        except TryAgain:
            finished = False
            raise
        finally:
            self._blocks.close(finished=finished)
            for number, handler in before.items():
                signal.signal(number, handler)
        again = f"`cloudgan search {self._folder.path}` continues it"
        if self._requested_signal == signal.SIGINT:
            raise Interrupted(f"the search stopped; {again}")
        if self._requested_signal == signal.SIGTERM:
            raise TryAgain(f"the search stopped; {again}")

    def _request(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._requested_signal = number

    def _adopt(self) -> None:
        """Follows the trials that blocks went on with while there was no coordinator."""
        blocks, training = self._blocks.current(), self._blocks.training()
        known = {block.index for block in blocks}
        for trial in tuple(self._waiting):
            block = training.get(trial.number)
            if block in known and block is not None:
                self._waiting.remove(trial)
                self._on[block] = trial.number

    def _step(self) -> bool:
        """Starts and follows trials; returns whether any are left."""
        blocks = self._blocks.current()
        are_left = self._start_trials(blocks)
        for block in blocks:
            if block.index in self._on:
                self._follow(block, self._on[block.index])
        self._blocks.note(self._study.states())
        return are_left or bool(self._on or self._waiting)

    def _start_trials(self, blocks: Sequence[TrialBlock]) -> bool:
        """Gives a trial to each free block; returns whether the search has more."""
        for block in blocks:
            if block.index in self._on or not block.is_ready:
                continue
            trial = self._waiting.pop(0) if self._waiting else self._study.ask()
            if trial is None:
                return False
            self._start(block, trial)
        return bool(self._waiting) or self._study.has_more

    def _start(self, block: TrialBlock, trial: FrozenTrial) -> None:
        path = self._folder.trial(trial.number)
        folder = RunFolder(path)
        try:
            if folder.read_config() is None:
                folder.write_config(self._run_config(trial, folder))
        except ConfigError as error:
            self._fail(trial.number, str(error))
            return
        lines = self._record(trial.number).lines
        saved = [line.step for line in lines if isinstance(line, Checkpointed)]
        self._study.count_attempt(trial.number, max(saved, default=0))
        block.start(path)
        self._on[block.index] = trial.number

    def _run_config(self, trial: FrozenTrial, folder: RunFolder) -> RunConfig:
        config = self._config.run_config(trial.params, folder.path.name)
        threads = self._blocks.run_threads()
        if config.training.threads or threads is None:
            return config
        return config.model_copy(
            update={"training": config.training.model_copy(update={"threads": threads})}
        )

    def _follow(self, block: TrialBlock, number: int) -> None:
        code = block.ended()
        self._report(block, number)
        if code is not None:
            del self._on[block.index]
            self._end(number, code)

    def _report(self, block: TrialBlock, number: int) -> None:
        if self._config.prune == "none" or number in self._pruned:
            return
        for each in self._record(number).validations():
            value = each.metrics.get(self._config.objective, math.nan)
            if math.isfinite(value) and self._study.report(number, each.epoch, value):
                self._pruned.add(number)
                block.request_stop()
                return

    def _record(self, number: int) -> RunRecord:
        return read_if_whole(RunFolder(self._folder.trial(number)).record_file)

    def _end(self, number: int, code: int) -> None:
        if number in self._pruned:
            self._study.prune(number)
            self._say(number, "pruned")
            return
        if code == 0:
            self._complete(number)
            return
        if code < 0 or code not in {1, _BAD_INPUT, _NO_PROGRESS}:  # killed, or asked to try again
            trial = self._study.trials()[number]
            if attempts(trial) < _MOST_ATTEMPTS:
                self._waiting.append(trial)
                return
        self._fail(number, _last_error(self._folder, number, code))

    def _complete(self, number: int) -> None:
        """Ends a trial with its objectives; one without a number failed."""
        run, names = self._record(number), self._config.objectives
        found = [validation_median(run, self._config.objective)]
        if self._config.second:
            found.append(second_objective(self._config, run))
        values = [value for value in found if value is not None]
        if len(values) < len(names):
            missing = names[found.index(None)]
            self._fail(number, f"no finite {missing} was measured")
            return
        self._study.complete(number, values)
        pairs = zip(names, values, strict=True)
        self._say(number, ", ".join(f"{name} {value:.4g}" for name, value in pairs))

    def _fail(self, number: int, reason: str) -> None:
        self._study.fail(number, reason)
        self._say(number, f"failed: {reason}")
        ended = [trial for trial in self._study.trials() if trial.state.is_finished()]
        last = ended[-_MOST_FAILURES:]
        if len(last) == _MOST_FAILURES and all(one.state == TrialState.FAIL for one in last):
            raise CloudganError(
                f"the last {_MOST_FAILURES} trials failed, the newest with: {reason}. Read"
                f" {self._folder.trial(number) / LOG}"
            )

    def _say(self, number: int, what: str) -> None:
        self._progress.advance(1)
        point = self._study.trials()[number].params
        values = ", ".join(
            f"{key.rpartition('.')[2]} {_short(value)}" for key, value in point.items()
        )
        self._progress.say(f"trial {number}: {what} ({values})")


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _last_error(folder: SearchFolder, number: int, code: int) -> str:
    lines = tail_lines(folder.trial(number) / LOG)
    said = [line.removeprefix("cloudgan: ") for line in lines if line.startswith("cloudgan: ")]
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return said[-1] if said else f"its process ended with {how}"
