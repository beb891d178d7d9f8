"""The loop of a search: claims runs of trials, has them trained by blocks, and tells the study what came of them.

It runs in every process of a search, on this machine and in each pod. All it knows is in the study and in the
records of the trials, so it may be killed at any moment. It trains nothing itself and imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from optuna.trial import FrozenTrial

from cloudgan.core.children import StopSignal, tail_lines
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Checkpointed, RunRecord, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import SearchConfig, TrialRun
from cloudgan.search.blocks import LOG, Block, blocks_of_machine, wait_for_trainers
from cloudgan.search.folder import SearchFolder
from cloudgan.search.objectives import (
    machine_seconds,
    objective_median,
    objective_values,
    second_objective,
)
from cloudgan.search.study import MOST_FAILURES, REASON, SearchStudy, claims_of, open_study
from cloudgan.storage.store import StoreError

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 60.0
_MOST_ATTEMPTS = 3
_BAD_INPUT, _NO_PROGRESS = 2, 76


class FailingError(CloudganError):
    """The last trials of a search failed."""


class Place(Protocol):
    """Where blocks train: this machine (`search.here.Here`), or a pod (`api.search_block.Pod`)."""

    @property
    def look_seconds(self) -> float:
        """Pause between two looks at the study."""

    def folder(self, run: TrialRun) -> RunFolder:
        """Returns the folder of a run."""

    def is_lost(self, run: TrialRun, holder: str) -> bool:
        """Whether a holder of another process trains its run no more."""

    def saved_step(self, run: TrialRun) -> int:
        """Returns the step of the newest checkpoint of a run; 0: none."""

    def prepare(self, run: TrialRun, config: RunConfig) -> None:
        """Makes the folder of a run ready for training."""

    def watch(self, run: TrialRun) -> str:
        """Follows a training; returns why it is to be killed, empty: it goes on."""

    def ended(self, run: TrialRun, *, is_own: bool) -> None:
        """Takes what a training left, unless another process holds its run by now."""

    def limit(self) -> str:
        """Returns the limit that ends the search here; empty: none."""


class TrialLoop:
    """Trains the trials of a search until all are finished."""

    def __init__(
        self,
        config: SearchConfig,
        study: SearchStudy,
        blocks: Sequence[Block],
        place: Place,
        progress: Progress,
        *,
        name: str,
        stop: StopSignal,
    ) -> None:
        """`name` is the unique name of this process in the claims of the study."""
        self._config, self._study, self._blocks = config, study, blocks
        self._place, self._progress = place, progress
        self._name, self._claims, self._stop = name, itertools.count(1), stop
        self._on: dict[int, tuple[TrialRun, str]] = {}
        self._codes: dict[int, int] = {}
        self._kill_seconds: dict[int, float] = {}
        self._reported: dict[TrialRun, int] = {}
        self._look_seconds = 0.0
        self._failed_before = study.failing()

    @property
    def running(self) -> set[TrialRun]:
        """The runs that blocks of this loop train."""
        return {run for run, _ in self._on.values()}

    def run(self) -> str:
        """Claims, trains and ends trials; those that run at its end saved a checkpoint.

        Returns the limit that ended the search before its last trial; empty: none did.
        """
        limit, are_left = "", True
        try:
            while not (self._stop.number or limit) and are_left:
                try:
                    are_left = self._step()
                except StoreError as error:
                    self._progress.say(f"{error}; retrying")
                time.sleep(_POLL_SECONDS if are_left else 0.0)
                limit = self._place.limit()
        finally:
            self._close()
        return limit

    def _close(self) -> None:
        """Asks all runs to stop at the same time, and waits for them."""
        for block in self._blocks:
            block.request_stop()
        for block in self._blocks:
            block.stop(_GRACE_SECONDS)
            if block.index in self._on:
                run, claim = self._on.pop(block.index)
                with contextlib.suppress(CloudganError):
                    self._place.ended(run, is_own=self._study.holder(run) == claim)

    def _step(self) -> bool:
        """Follows and starts trainings; returns whether any trials are left."""
        for block in self._blocks:
            if block.index in self._on:
                self._follow(block)
        free = [block for block in self._blocks if block.index not in self._on]
        now = time.monotonic()
        if now < self._look_seconds:
            return True
        self._look_seconds = now + self._place.look_seconds
        raise_if_failing(self._study, self._failed_before, self._place.folder)
        self._stop_withdrawn()
        for trial in self._study.unfinished():
            if not self._study.missing_runs(trial):  # its process was killed before it ended it
                self._end_after_all_runs(trial.number)
        for block in free:
            if not self._start(block):
                break
        return bool(self._on) or not self._study.is_over

    def _stop_withdrawn(self) -> None:
        """Stops the training of trials that ended elsewhere, or that another process holds by now."""
        trials = self._study.trials()
        for block in self._blocks:
            run, claim = self._on.get(block.index, (None, ""))
            if run is None:
                continue
            trial = trials[run.trial]
            if trial.state.is_finished() or claims_of(trial, run)[-1].holder != claim:
                self._request_stop(block)

    def _request_stop(self, block: Block) -> None:
        if block.index not in self._kill_seconds:
            block.request_stop()
            self._kill_seconds[block.index] = time.monotonic() + _GRACE_SECONDS

    def _start(self, block: Block) -> bool:
        """Gives a free block a run; returns whether there was one."""
        claim = f"{self._name}/{next(self._claims)}"
        run = self._study.claim_run(claim, self._is_lost, self._place.saved_step)
        if run is None:
            return False
        self._on[block.index] = run, claim
        folder = self._place.folder(run)
        try:
            point = self._study.trials()[run.trial].params
            self._place.prepare(run, self._config.run_config(point, run.name, run.fold))
        except StoreError:
            del self._on[block.index]  # it is claimed again, or by another process
            raise
        except CloudganError as error:
            del self._on[block.index]
            self._place.ended(run, is_own=False)
            self._end(run, error.exit_code, str(error))
            return True
        block.start(folder.path)
        return True

    def _is_lost(self, run: TrialRun, holder: str) -> bool:
        process = holder.rpartition("/")[0]
        if process == self._name:
            return run not in self.running
        return self._place.is_lost(run, process)

    def _follow(self, block: Block) -> None:
        run, claim = self._on[block.index]
        code = self._codes.get(block.index, block.ended())
        is_own = code is None or self._study.holder(run) == claim
        if is_own:
            self._report(block, run)
        if code is None:
            late = time.monotonic() > self._kill_seconds.get(block.index, math.inf)
            problem = "its training did not stop in time" if late else self._place.watch(run)
            if problem:
                self._progress.say(f"trial {run.name}: {problem}")
                block.kill()
            return
        self._codes[block.index] = code  # if the store fails, it is ended at the next step
        self._place.ended(run, is_own=is_own)
        if is_own:
            self._end(run, code, "")
        del self._on[block.index], self._codes[block.index]
        self._kill_seconds.pop(block.index, None)
        self._look_seconds = 0.0

    def _record(self, run: TrialRun) -> RunRecord:
        return read_if_whole(self._place.folder(run).record_file)

    def _report(self, block: Block, run: TrialRun) -> None:
        """Compares the validations of a trial without folds with those of other trials."""
        if self._config.prune == "none" or run.fold is not None:
            return
        for epoch, value in objective_values(self._record(run), self._config.objective):
            if not math.isfinite(value) or epoch <= self._reported.get(run, -1):
                continue
            if self._study.report(run.trial, epoch, value):
                self._prune(run.trial)
                self._request_stop(block)
                return
            self._reported[run] = epoch

    def _end(self, run: TrialRun, code: int, reason: str) -> None:
        if self._study.trials()[run.trial].state.is_finished():  # pruned, or ended by another fold
            return
        if code == 0:
            self._complete(run)
            return
        may_continue = code not in {1, _BAD_INPUT, _NO_PROGRESS}  # killed, or asked to try again
        if may_continue and self._study.attempts(run) < _MOST_ATTEMPTS:
            return
        self._fail(run, reason or _last_error(self._place.folder(run).path, code))

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
        if self._study.complete(number, means):
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
        if self._study.prune(number):
            self._say(number, "pruned")
        self._look_seconds = 0.0

    def _fail(self, run: TrialRun, reason: str) -> None:
        """Ends a trial without an objective: none of its folds is left out."""
        why = reason if run.fold is None else f"fold {run.fold}: {reason}"
        if self._study.fail(run.trial, why):
            self._say(run.trial, f"failed: {reason}")
        self._look_seconds = 0.0

    def _say(self, number: int, what: str) -> None:
        say_end(self._progress, number, what, self._study.trials()[number].params)


def raise_if_failing(
    study: SearchStudy, before: FrozenTrial | None, folder: Callable[[TrialRun], RunFolder]
) -> None:
    """Ends a search whose last trials failed, unless they had before this process began."""
    last = study.failing()
    if last is None or (before and before.number == last.number):
        return
    run = study.runs_of(last)[0]
    log = folder(run).path / LOG
    if run.fold is not None:
        log = log.parents[1] / "*" / LOG
    raise FailingError(
        f"the last {MOST_FAILURES} trials failed, the newest with: {last.user_attrs.get(REASON)}. Read {log}"
    )


def say_end(progress: Progress, number: int, what: str, point: Mapping[str, object]) -> None:
    """Says how a trial ended."""
    shown = {
        key.rpartition(".")[2]: f"{value:.4g}" if isinstance(value, float) else str(value)
        for key, value in point.items()
    }
    values = ", ".join(f"{key} {text}" for key, text in shown.items())
    progress.say(f"trial {number}: {what} ({values})")
    progress.advance(1)


def _last_error(path: Path, code: int) -> str:
    lines = tail_lines(path / LOG)
    said = [line.removeprefix("cloudgan: ") for line in lines if line.startswith("cloudgan: ")]
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return said[-1] if said else f"its process ended with {how}"


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
        hours, most, spent = self._max_hours, self._budget_usd, self._config.usd(self._seconds)
        if hours is not None and time.monotonic() - self._began_seconds >= hours * HOUR_SECONDS:
            return f"--max-hours={hours:g}"
        if most is None or spent is None:
            return ""
        return f"--budget-usd={most:g}" if spent >= most else ""


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
