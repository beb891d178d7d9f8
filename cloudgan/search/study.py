"""The study of a search: its history, who trains which run, the next question, and the best trials.

The journal is the only state, and every process of a search asks and tells it: optuna-dashboard opens the file of
one, and a process that starts later, here or in a pod, goes on from it.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.schema.search import SearchConfig, TrialRun
from cloudgan.search.folder import SearchFolder
from cloudgan.search.journal import file_journal
from cloudgan.search.samplers import distributions, grid, make_sampler

REASON = "reason"
"""Attribute of a failed trial."""
MOST_FAILURES = 5
"""So many failed trials in a row end a search."""
_CLAIM, _OBJECTIVES = "claim", "objectives"
_MACHINE_SECONDS, _TRIALS, _SEARCH = "machine seconds", "trials", "search"
_DECIDED = "decided"
"""Attribute of a trial: its newest position, the number of its attributes of Optuna then, and whether it
is to be pruned."""
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
_FEWEST_TO_COMPARE = 4
_FEWEST_BEST, _FEWEST_FOR_IMPORTANCE = 5, 8


class Claim(NamedTuple):
    """A process that trains a run of a trial.

    `saved_step` is that of the newest checkpoint when it began; 0: none.
    """

    holder: str
    saved_step: int


class SearchStudy:
    """The history of a search."""

    def __init__(
        self,
        config: SearchConfig,
        journal: BaseJournalBackend | None,
        name: str,
        place: str,
        *,
        read_only: bool = False,
    ) -> None:
        """A search without a journal has no trials.

        `name` is of a new study, `place` of the journal for messages.
        """
        optuna.logging.set_verbosity(logging.ERROR)
        self._config = config
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                self._storage: BaseStorage = (
                    InMemoryStorage() if journal is None else JournalStorage(journal)
                )
                # The journal holds one study, whose name stays if the folder is renamed.
                names = optuna.get_all_study_names(self._storage)
                if read_only and not names:
                    self._storage = InMemoryStorage()
                if names:
                    self._study = optuna.load_study(study_name=names[0], storage=self._storage)
                else:  # of two processes that create it, the second opens it
                    self._study = optuna.create_study(
                        storage=self._storage,
                        study_name=name,
                        directions=config.directions,
                        load_if_exists=True,
                    )
                self._check_search(place, read_only=read_only)
                if not (read_only or self._study.metric_names):
                    self._study.set_metric_names(list(config.objectives))
                self._study.pruner = {
                    "none": optuna.pruners.NopPruner(),
                    "median": optuna.pruners.MedianPruner(n_startup_trials=_FEWEST_TO_COMPARE),
                    "halving": optuna.pruners.SuccessiveHalvingPruner(),
                }[config.prune]
        except (ValueError, KeyError, AssertionError) as error:
            raise DataError(
                f"{place} is damaged ({error}); move it away, the finished runs of its trials stay"
            ) from error

    def _check_search(self, place: str, *, read_only: bool) -> None:
        """Checks that the journal is of this search, and notes its number of trials."""
        noted, own = self._study.user_attrs, identity(self._config)
        if noted.get(_SEARCH, own) != own:
            raise ConfigError(
                f"{place} is the journal of another search: its space, sampler, objective or run differ; give"
                " another --run, or continue that search from its own folder"
            )
        if read_only:
            return
        if _SEARCH not in noted:
            self._study.set_user_attr(_SEARCH, own)
        if noted.get(_TRIALS) != self._config.trials:
            self._study.set_user_attr(_TRIALS, self._config.trials)

    @property
    def size(self) -> int:
        """Number of trials that the search has."""
        return number_of_trials(self._of_all())

    def _of_all(self) -> SearchConfig:
        """Returns the search with the number of trials that was last asked for, by whichever process."""
        trials = self._study.user_attrs.get(_TRIALS, self._config.trials)
        return self._config.model_copy(update={"trials": trials})

    def trials(self) -> list[FrozenTrial]:
        """Returns all trials by number, without those that two processes asked beyond the last one."""
        size, found = self.size, self._study.get_trials(deepcopy=False)
        return [trial for trial in found if trial.number < size or trial.params]

    def unfinished(self) -> list[FrozenTrial]:
        """Returns the trials that were asked and are not finished."""
        return [trial for trial in self.trials() if not trial.state.is_finished()]

    def runs_of(self, trial: FrozenTrial) -> tuple[TrialRun, ...]:
        """Returns the runs of a trial: one, or one for each fold."""
        return self._config.runs_of(trial.number)

    def missing_runs(self, trial: FrozenTrial) -> list[TrialRun]:
        """Returns the runs of a trial without objectives."""
        known = self.objectives_of(trial)
        return [run for run in self.runs_of(trial) if run not in known]

    @property
    def is_over(self) -> bool:
        """Whether all trials are finished."""
        trials = self.trials()
        return len(trials) >= self.size and all(trial.state.is_finished() for trial in trials)

    # Asking

    def claim_run(
        self,
        holder: str,
        is_lost: Callable[[TrialRun, str], bool],
        saved_step: Callable[[TrialRun], int],
    ) -> TrialRun | None:
        """Claims a run without an objective, or asks a new trial; None: others train all that is left.

        A claim is an entry of the journal that names the holder before it: of two, the first one wins.
        """
        for trial in self.unfinished():
            for run in self.missing_runs(trial):
                if run.fold and not self._has_values(trial):
                    continue  # the holder of the first fold asks them
                claims = claims_of(trial, run)
                before = claims[-1].holder if claims else ""
                if before and not is_lost(run, before):
                    continue
                attribute = f"{_key(_CLAIM, run)} by {holder}"
                self._note(trial.number, attribute, [before, saved_step(run)])
                if self.holder(run) == holder and self._ask_values(run, holder):
                    return run
        asked = self.ask(holder)
        return self.runs_of(asked)[0] if asked else None

    def ask(self, holder: str = "") -> FrozenTrial | None:
        """Returns a new trial, whose first run has a holder; None: the search has asked all of its trials."""
        if len(self.trials()) >= self.size:
            return None
        # The trial and its claim are one entry: no process sees the one without the other.
        attribute = f"{_key(_CLAIM, self._config.runs_of(0)[0])} by {holder}"
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING, user_attrs={attribute: ["", 0]} if holder else {}
        )
        trial_id = self._storage.create_new_trial(self._study._study_id, template)
        number = self._storage.get_trial(trial_id).number
        if number >= self.size:  # another process asked the last one at the same time
            return None
        has_values = self._ask_values(self._config.runs_of(number)[0], holder)
        return self.trials()[number] if has_values else None

    def _has_values(self, trial: FrozenTrial) -> bool:
        return set(trial.params) == set(self._config.space)

    def _ask_values(self, run: TrialRun, holder: str) -> bool:
        """Asks the values that a trial lacks, all of them unless a process was killed while it asked.

        Returns:
            False: this process was taken for lost while its sampler computed.
        """
        trial, config = self.trials()[run.trial], self._of_all()
        if self._has_values(trial):
            return True
        self._study.sampler = make_sampler(
            config.sampler,
            config.space,
            seed=config.base.training.seed,
            number=trial.number,
            trials=config.trials,
        )
        asked = optuna.trial.Trial(self._study, trial._trial_id)
        if self.holder(run) != holder:
            return False
        for name, distribution in distributions(config.space).items():
            asked._suggest(name, distribution)  # as `Study.ask` does
        return True

    def holder(self, run: TrialRun) -> str:
        """Returns who trains a run, or trained it last; empty: no process has."""
        claims = claims_of(self.trials()[run.trial], run)
        return claims[-1].holder if claims else ""

    def attempts(self, run: TrialRun) -> int:
        """Returns how many processes were started for a run from its newest checkpoint."""
        count = newest = 0
        for claim in claims_of(self.trials()[run.trial], run):
            count = 1 if claim.saved_step > newest else count + 1
            newest = max(newest, claim.saved_step)
        return count

    # Telling

    def report(self, number: int, position: int, value: float) -> bool:
        """Records a value of a running trial; returns whether the trial is to be pruned.

        A process that was killed does not undo it: the next one gets the same answer.

        `position` is the epoch of the validation, or the number of the last fold in the mean.
        """
        trial = self.trials()[number]
        decided, attributes, prunes = trial.user_attrs.get(_DECIDED, (-1, 0, False))
        if prunes or position <= decided or trial.state.is_finished():
            return bool(prunes)
        with suppress(UpdateFinishedTrialError):
            self._storage.set_trial_intermediate_value(trial._trial_id, position, value)
            asked = copy(self.trials()[number])
            # Halving notes a rung before it decides: after a kill in between, the trial would have passed it.
            asked.system_attrs = dict(islice(asked.system_attrs.items(), attributes))
            prunes = bool(self._study.pruner.prune(self._study, asked))
            attributes = len(self.trials()[number].system_attrs)
            self._note(number, _DECIDED, (position, attributes, prunes))
        return bool(prunes)

    def note_objectives(self, run: TrialRun, values: Sequence[float]) -> None:
        """Keeps the objectives of a run that ended, until all runs of its trial have."""
        self._note(run.trial, _key(_OBJECTIVES, run), list(values))

    def objectives_of(self, trial: FrozenTrial) -> dict[TrialRun, list[float]]:
        """Returns the objectives of the runs of a trial that ended, by run."""
        keys = {run: _key(_OBJECTIVES, run) for run in self._config.runs_of(trial.number)}
        return {run: trial.user_attrs[key] for run, key in keys.items() if key in trial.user_attrs}

    def run_objectives(self, number: int) -> dict[TrialRun, list[float]]:
        """Returns the objectives of the runs of a trial that ended, by run."""
        return self.objectives_of(self.trials()[number])

    def complete(self, number: int, values: Sequence[float]) -> bool:
        """Ends a trial with its objectives; returns whether no other process had ended it."""
        return self._tell(number, values=values)

    def prune(self, number: int) -> bool:
        """Ends a trial that was stopped early; returns whether no other process had ended it."""
        return self._tell(number, state=TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> bool:
        """Ends a trial without an objective; returns whether no other process had ended it."""
        self._note(number, REASON, reason)
        return self._tell(number, state=TrialState.FAIL)

    def _tell(self, number: int, **result: Any) -> bool:
        trial = self.trials()[number]
        if trial.state.is_finished():
            return False
        try:
            self._study.tell(number, **result)
        except (UpdateFinishedTrialError, ValueError):
            if not self.trials()[number].state.is_finished():
                raise
            return False
        return True

    def _note(self, number: int, key: str, value: Any) -> None:
        """Keeps an attribute of a trial, unless another process ends it at this moment."""
        trial = self.trials()[number]
        with suppress(UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(trial._trial_id, key, value)

    @property
    def machine_seconds(self) -> float:
        """Time of all processes of a search on this machine, as last noted."""
        return float(self._study.user_attrs.get(_MACHINE_SECONDS, 0.0))

    def note_machine_seconds(self, seconds: float) -> None:
        """Keeps the time of all processes of a search on this machine."""
        self._study.set_user_attr(_MACHINE_SECONDS, round(seconds, 3))

    # Result

    def failing(self) -> FrozenTrial | None:
        """Returns the newest of the last finished trials if all of them failed."""
        last = [trial for trial in self.trials() if trial.state.is_finished()][-MOST_FAILURES:]
        all_failed = all(trial.state == TrialState.FAIL for trial in last)
        return last[-1] if len(last) == MOST_FAILURES and all_failed else None

    def best(self) -> FrozenTrial | None:
        """Returns the finished trial with the best first objective; None without any."""
        found = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        sign = 1 if self._config.direction == "minimize" else -1
        return min(found, key=lambda trial: sign * trial.values[0], default=None)

    def states(self) -> tuple[dict[int, str], int | None]:
        """Returns the state of each trial, and the number of the best one."""
        best = self.best()
        return {one.number: state_name(one) for one in self.trials()}, best.number if best else None

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


def open_study(
    folder: SearchFolder, config: SearchConfig, *, read_only: bool = False
) -> SearchStudy:
    """Opens the study in the folder of a search, or creates it."""
    file, name = folder.journal_file, folder.path.resolve().name
    journal = file_journal(file) if file.exists() or not read_only else None
    return SearchStudy(config, journal, name, str(file), read_only=read_only)


def read_study(path: str | Path) -> tuple[SearchFolder, SearchConfig, SearchStudy]:
    """Returns the folder of a search, its configuration and its history; nothing is started."""
    folder = SearchFolder(find_run_folder(path).path)
    config = folder.read_config()
    if config is None:
        raise DataError(f"{path}: no search.json; start a search with `cloudgan search SPACE.yaml`")
    return folder, config, open_study(folder, config, read_only=True)


def identity(config: SearchConfig) -> str:
    """Returns the hash of what makes a search this one: not where its showers are, nor how many trials it has."""
    data = config.base.data.model_copy(update={"path": ""})
    base = config.base.model_copy(update={"data": data})
    others = {"trials", "blocks", "store", "usd_per_hour", "priced_as"}
    whole = config.model_copy(update={"base": base}).model_dump_json(
        exclude=others, exclude_defaults=True
    )
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def claims_of(trial: FrozenTrial, run: TrialRun) -> list[Claim]:
    """Returns the claims of a run that won, in their order.

    Each names the holder before it, so of two that name the same one the first in the journal wins.
    """
    found: list[Claim] = []
    begins = f"{_key(_CLAIM, run)} by "
    for key, value in trial.user_attrs.items():  # in the order of the journal
        if key.startswith(begins) and value[0] == (found[-1].holder if found else ""):
            found.append(Claim(key.removeprefix(begins), value[1]))
    return found


def number_of_trials(config: SearchConfig) -> int:
    """Returns how many trials a search has; a grid has its own number."""
    if config.sampler == "grid":
        return len(grid(config.space, config.trials))
    return config.trials


def state_name(trial: FrozenTrial) -> str:
    """Returns complete, pruned, failed or unfinished: in training, or stopped with its block."""
    return _STATES.get(trial.state.name, "unfinished")


def _key(name: str, run: TrialRun) -> str:
    """Name of an attribute of a trial that belongs to one of its runs."""
    return name if run.fold is None else f"{name} of fold {run.fold}"
