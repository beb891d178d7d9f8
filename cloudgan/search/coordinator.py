"""The coordinator of a search: gives trials to blocks, reads their validations, and ends them.

It trains nothing itself and imports no TensorFlow. All it knows is in the study and in the records of
the trials, so it may be killed at any moment.
"""

from __future__ import annotations

import math
import signal
import time
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from cloudgan.core.errors import CloudganError, ConfigError, Interrupted, TryAgain
from cloudgan.core.tail import tail_lines
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.search.blocks import LOG, stop_all, threads_per_block
from cloudgan.search.objectives import second_objective, validation_median
from cloudgan.search.study import attempts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from optuna.trial import FrozenTrial

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import RunRecord
    from cloudgan.schema.search import SearchConfig
    from cloudgan.search.blocks import Block
    from cloudgan.search.study import SearchFolder, SearchStudy

_POLL_SECONDS = 0.2
_MOST_ATTEMPTS = 3
_MOST_FAILURES = 5
_BAD_INPUT, _NO_PROGRESS = 2, 76


class Coordinator:
    """Runs the trials of a search until all are finished."""

    def __init__(
        self,
        folder: SearchFolder,
        config: SearchConfig,
        study: SearchStudy,
        blocks: Sequence[Block],
        progress: Progress,
    ) -> None:
        """Prepares the coordinator; `progress` receives one line for each finished trial."""
        self._folder, self._config, self._study = folder, config, study
        self._blocks, self._progress = blocks, progress
        self._waiting = study.unfinished()
        self._on: dict[int, int] = {}
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
        try:
            while self._requested_signal is None and (self._start_trials() or self._on):
                self._follow()
                time.sleep(_POLL_SECONDS)
        finally:
            stop_all(self._blocks)
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

    def _start_trials(self) -> bool:
        """Gives a trial to each free block; returns whether any was started."""
        started = False
        for block in self._blocks:
            if block.index in self._on:
                continue
            trial = self._waiting.pop(0) if self._waiting else self._study.ask()
            if trial is None:
                return started
            started = True
            self._start(block, trial)
        return started

    def _start(self, block: Block, trial: FrozenTrial) -> None:
        path = self._folder.trial(trial.number)
        folder = RunFolder(path)
        try:
            if folder.read_config() is None:
                folder.write_config(self._run_config(trial, folder))
        except ConfigError as error:
            self._fail(trial.number, str(error))
            return
        self._study.count_attempt(trial.number)
        block.start(path)
        self._on[block.index] = trial.number

    def _run_config(self, trial: FrozenTrial, folder: RunFolder) -> RunConfig:
        config = self._config.run_config(trial.params, folder.path.name)
        if config.training.threads or len(self._blocks) == 1:
            return config
        threads = threads_per_block(len(self._blocks))
        return config.model_copy(
            update={"training": config.training.model_copy(update={"threads": threads})}
        )

    def _follow(self) -> None:
        for block in self._blocks:
            if block.index not in self._on:
                continue
            number = self._on[block.index]
            self._report(block, number)
            code = block.ended()
            if code is not None:
                del self._on[block.index]
                self._end(number, code)

    def _report(self, block: Block, number: int) -> None:
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
