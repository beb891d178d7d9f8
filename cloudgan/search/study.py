"""The study of a search: its history in Optuna's journal, the next question, and the result.

The journal (`journal.log`, Optuna's JournalStorage) is the only state: optuna-dashboard opens it, and a
coordinator that was killed continues from it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from copy import copy
from itertools import islice
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from cloudgan.core.errors import DataError
from cloudgan.core.file_lock import cut_last_line
from cloudgan.schema.search import SearchConfig
from cloudgan.schema.search_exchange import TrialRun, TrialStates
from cloudgan.search.folder import SearchFolder
from cloudgan.search.samplers import distributions, grid, make_sampler

REASON = "reason"
"""Attribute of a failed trial."""
_ATTEMPTS, _SAVED, _OBJECTIVES = "attempts", "saved step", "objectives"
_MACHINE_SECONDS = "machine seconds"
_DECIDED = "decided"
"""Attribute of a trial: its newest position, the number of its attributes of Optuna then, and whether it
is to be pruned."""
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
_FEWEST_TO_COMPARE = 4
_FEWEST_BEST, _FEWEST_FOR_IMPORTANCE = 5, 8
_LOCK_SECONDS = 3
"""A write takes milliseconds: an older lock is that of a killed process."""


class _Lock(JournalFileSymlinkLock):
    """Optuna's lock of the journal; its holder first removes the line that a killed process left half."""

    def __init__(self, file: Path) -> None:
        # Absolute, because the lock is a link to the file, whose time tells how old the lock is.
        super().__init__(str(file.absolute()), grace_period=_LOCK_SECONDS)
        self._file = file

    def acquire(self) -> bool:
        """Waits for the lock; one that a killed process left is removed after `_LOCK_SECONDS`."""
        super().acquire()
        cut_last_line(self._file)
        return True


class SearchStudy:
    """The history of a search."""

    def __init__(
        self, folder: SearchFolder, config: SearchConfig, *, read_only: bool = False
    ) -> None:
        """Opens the study, or creates it.

        Args:
            folder: Of the search.
            config: Of the search.
            read_only: Write no file; a search without a journal has no trials.

        Raises:
            DataError: The journal is damaged.
        """
        optuna.logging.set_verbosity(logging.ERROR)
        self._config, file = config, folder.journal_file
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                self._storage: BaseStorage = InMemoryStorage()
                if file.exists() or not read_only:
                    self._storage = JournalStorage(JournalFileBackend(str(file), _Lock(file)))
                # The journal holds one study, whose name stays if the folder is renamed.
                names = optuna.get_all_study_names(self._storage)
                if names:
                    self._study = optuna.load_study(study_name=names[0], storage=self._storage)
                else:
                    self._storage = InMemoryStorage() if read_only else self._storage
                    self._study = optuna.create_study(
                        storage=self._storage,
                        study_name=folder.path.resolve().name,
                        directions=config.directions,
                    )
                if not (read_only or self._study.metric_names):
                    self._study.set_metric_names([config.objective, *filter(None, [config.second])])
                self._study.pruner = _pruner(config)
                if not read_only:
                    self._finish_asking()
        except (ValueError, KeyError, AssertionError) as error:
            raise DataError(
                f"{folder.journal_file} is damaged ({error}); move it away, the finished runs in"
                f" {folder.path / 'trials'} stay"
            ) from error

    @property
    def size(self) -> int:
        """Number of trials that the search has."""
        return number_of_trials(self._config)

    def trials(self) -> list[FrozenTrial]:
        """Returns all trials by number."""
        return self._study.get_trials(deepcopy=False)

    def unfinished(self) -> list[FrozenTrial]:
        """Returns the trials that a coordinator asked and did not finish."""
        return [trial for trial in self.trials() if not trial.state.is_finished()]

    def unfinished_runs(self) -> list[TrialRun]:
        """Returns the runs without objectives of the trials that are not finished."""
        runs = [run for trial in self.unfinished() for run in self._config.runs_of(trial.number)]
        return [run for run in runs if run not in self.run_objectives(run.trial)]

    def ask(self) -> FrozenTrial | None:
        """Returns a new trial with its point; None: the search has asked all of its trials."""
        number = len(self.trials())
        if number >= self.size:
            return None
        self._set_sampler(number)
        asked = self._study.ask(distributions(self._config.space))
        return self.trials()[asked.number]

    def _set_sampler(self, number: int) -> None:
        """Sets the sampler of the point of a trial."""
        self._study.sampler = make_sampler(
            self._config.sampler,
            self._config.space,
            seed=self._config.base.training.seed,
            number=number,
            trials=self._config.trials,
        )

    def _finish_asking(self) -> None:
        """Asks again the values that a trial lacks because its coordinator was killed while it asked."""
        wanted = distributions(self._config.space)
        for trial in self.unfinished():
            if set(trial.params) != set(wanted):
                self._set_sampler(trial.number)
                asked = optuna.trial.Trial(self._study, trial._trial_id)
                for name, distribution in wanted.items():
                    asked._suggest(name, distribution)  # as `Study.ask` does

    def report(self, number: int, position: int, value: float) -> bool:
        """Records a value of a running trial; returns whether the trial is to be pruned.

        A coordinator that was killed does not undo it: the next one gets the same answer.

        Args:
            number: Of the trial.
            position: Epoch of the validation, or number of the last fold in the mean.
            value: Is compared with those of other trials at this position.
        """
        trial = self.trials()[number]
        decided, attributes, prunes = trial.user_attrs.get(_DECIDED, (-1, 0, False))
        if prunes or position <= decided:
            return bool(prunes)
        self._storage.set_trial_intermediate_value(trial._trial_id, position, value)
        asked = copy(self.trials()[number])
        # Halving notes a rung before it decides: after a kill in between, the trial would have passed it.
        asked.system_attrs = dict(islice(asked.system_attrs.items(), attributes))
        prunes = bool(self._study.pruner.prune(self._study, asked))
        attributes = len(self.trials()[number].system_attrs)
        decision = (position, attributes, prunes)
        self._storage.set_trial_user_attr(trial._trial_id, _DECIDED, decision)
        return prunes

    def note_objectives(self, run: TrialRun, values: Sequence[float]) -> None:
        """Keeps the objectives of a run that ended, until all runs of its trial have."""
        trial_id = self.trials()[run.trial]._trial_id
        self._storage.set_trial_user_attr(trial_id, _key(_OBJECTIVES, run), list(values))

    def run_objectives(self, number: int) -> dict[TrialRun, list[float]]:
        """Returns the objectives of the runs of a trial that ended, by run."""
        found = self.trials()[number].user_attrs
        keys = {run: _key(_OBJECTIVES, run) for run in self._config.runs_of(number)}
        return {run: found[key] for run, key in keys.items() if key in found}

    def complete(self, number: int, values: Sequence[float]) -> None:
        """Ends a trial with its objectives."""
        self._study.tell(number, values)

    def prune(self, number: int) -> None:
        """Ends a trial that was stopped early."""
        self._study.tell(number, state=TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """Ends a trial without an objective; its point is not asked again."""
        self._storage.set_trial_user_attr(self.trials()[number]._trial_id, REASON, reason)
        self._study.tell(number, state=TrialState.FAIL)

    @property
    def has_more(self) -> bool:
        """Whether trials are left to ask."""
        return len(self.trials()) < self.size

    def states(self) -> TrialStates:
        """Returns the state of each trial, and the number of the best one."""
        best = self.best()
        states = {trial.number: state_name(trial) for trial in self.trials()}
        return TrialStates.model_validate({"states": states, "best": best.number if best else None})

    def count_attempt(self, run: TrialRun, saved_step: int) -> None:
        """Counts the start of a process for a run of a trial, from 1 after a newer checkpoint.

        Args:
            run: Of the trial.
            saved_step: Step of its newest checkpoint; 0: none.
        """
        trial, saved = self.trials()[run.trial], _key(_SAVED, run)
        before = self.attempts(run) if saved_step <= trial.user_attrs.get(saved, 0) else 0
        self._storage.set_trial_user_attr(trial._trial_id, saved, saved_step)
        self._storage.set_trial_user_attr(trial._trial_id, _key(_ATTEMPTS, run), before + 1)

    def attempts(self, run: TrialRun) -> int:
        """Returns how many processes were started for a run from its newest checkpoint."""
        return int(self.trials()[run.trial].user_attrs.get(_key(_ATTEMPTS, run), 0))

    @property
    def machine_seconds(self) -> float:
        """Time of all coordinators of the search, as last noted."""
        return float(self._study.user_attrs.get(_MACHINE_SECONDS, 0.0))

    def note_machine_seconds(self, seconds: float) -> None:
        """Keeps the time of all coordinators of the search."""
        self._study.set_user_attr(_MACHINE_SECONDS, round(seconds, 3))

    def best(self) -> FrozenTrial | None:
        """Returns the finished trial with the best first objective; None without any."""
        found = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        sign = 1 if self._config.direction == "minimize" else -1
        return min(found, key=lambda trial: sign * trial.values[0], default=None)

    def importances(self) -> dict[str, float]:
        """Returns the importance of each key of the space for the first objective, the largest first.

        By PED-ANOVA (arXiv:2304.10255): which keys distinguish the best trials, a tenth of them but at least
        five, from the others. Empty with too few complete trials.
        """
        count = sum(trial.state == TrialState.COMPLETE for trial in self.trials())
        if count < _FEWEST_FOR_IMPORTANCE:
            return {}
        sign = 1 if self._config.direction == "minimize" else -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental, and says which direction it takes
            return optuna.importance.get_param_importances(
                self._study,
                evaluator=optuna.importance.PedAnovaImportanceEvaluator(
                    target_quantile=max(0.1, _FEWEST_BEST / count)
                ),
                target=lambda trial: sign * trial.values[0],
            )

    def front(self) -> list[FrozenTrial]:
        """Returns the finished trials that no other beats in both objectives, by the second one.

        Empty with one objective.
        """
        found = self._study.best_trials if self._config.second else []
        return sorted(found, key=lambda trial: trial.values[1])


def number_of_trials(config: SearchConfig) -> int:
    """Returns how many trials a search has; a grid has its own number."""
    if config.sampler == "grid":
        return len(grid(config.space, config.trials))
    return config.trials


def state_name(trial: FrozenTrial) -> str:
    """Returns complete, pruned, failed or running."""
    return _STATES.get(trial.state.name, "running")


def _key(name: str, run: TrialRun) -> str:
    """Name of an attribute of a trial that belongs to one of its runs."""
    return name if run.fold is None else f"{name} of fold {run.fold}"


def _pruner(config: SearchConfig) -> optuna.pruners.BasePruner:
    if config.prune == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=_FEWEST_TO_COMPARE)
    if config.prune == "halving":
        return optuna.pruners.SuccessiveHalvingPruner()
    return optuna.pruners.NopPruner()
