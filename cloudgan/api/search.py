"""Searches hyper-parameters on this machine: the use case of `cloudgan search`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.api.run import Run
from cloudgan.api.run_options import resolve
from cloudgan.api.training_showers import count_showers, find_showers
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError, DataError, install_command
from cloudgan.core.file_lock import locked_target
from cloudgan.core.local_path import local_path
from cloudgan.reports.page import Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema.held_out import check_can_validate
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import SearchConfig, parse_search, read_space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.progress import Progress
    from cloudgan.schema.search import Point
    from cloudgan.search.study import SearchFolder, SearchStudy

DEFAULT_RUN = "runs/search"


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: From 0.
        state: complete, pruned, failed or running.
        value: Its objective; None without one.
        point: Values by key of run.yaml.
        seconds: Program time of all its processes; None: no process recorded any.
        run: Its folder, an ordinary run.
        reason: Why it failed.
    """

    number: int
    state: str
    value: float | None
    point: Point
    seconds: float | None
    run: Path
    reason: str = ""


@dataclass(frozen=True)
class Search:
    """A search and its trials; a notebook shows them as a table.

    Attributes:
        path: Folder of the search; ``trials/NNNN`` in it are ordinary runs.
        objective: Validation number that ranks the trials.
        trials: By number.
        best_trial: The complete trial with the best objective; None without any.
    """

    path: Path
    objective: str
    trials: tuple[Trial, ...]
    best_trial: Trial | None

    @property
    def best(self) -> Run | None:
        """The run of the best trial."""
        return Run(self.best_trial.run) if self.best_trial else None

    def seconds_by_state(self) -> dict[str, float]:
        """Returns the program time of the trials that are complete, pruned, failed and running."""
        found: dict[str, float] = {}
        for trial in self.trials:
            found[trial.state] = found.get(trial.state, 0.0) + (trial.seconds or 0.0)
        return found

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {
            "search": str(self.path),
            "objective": self.objective,
            "best": self.best_trial.number if self.best_trial else None,
            "seconds_by_state": {k: round(v, 1) for k, v in self.seconds_by_state().items()},
            "trials": [vars(trial) | {"run": str(trial.run)} for trial in self.trials],
        }

    def table(self) -> Table:
        """Returns a row per trial."""
        keys = list(self.trials[0].point) if self.trials else []
        names = [key.rpartition(".")[2].replace("_", " ") for key in keys]
        rows = tuple(
            (
                trial.number,
                trial.state,
                trial.value,
                *(trial.point[key] for key in keys),
                trial.seconds,
            )
            for trial in self.trials
        )
        note = f"Trials by number; {self.objective} is the median of the last three validations."
        if self.best_trial:
            note += f" The best is {self.best_trial.run}."
        return Table(("trial", "state", self.objective, *names, "seconds"), rows, note)

    def _repr_html_(self) -> str:
        return fragment((Section(f"Search {self.path.name}", (self.table(),)),))


def run_search(
    space: str | Path,
    keys: Mapping[str, Any],
    *,
    config: str | None,
    run: str | None,
    settings: Mapping[str, Any],
    progress: Progress,
) -> Search:
    """Searches hyper-parameters, or continues a search.

    Args:
        space: YAML file with ranges or choices by key of run.yaml; or the folder of a search to continue.
        keys: Options of `train` by their dotted keys; None is not set.
        config: A run.yaml that all trials share; options override its keys.
        run: Folder of a new search. Default: runs/search.
        settings: ``trials``, ``blocks``, ``sampler``, ``objective``, ``direction`` and ``prune``; None is
            not set, and a search that continues takes the first two only.
        progress: Receives a line for each finished trial.

    Raises:
        ConfigError: The space or an option is not valid; or another process runs this search.
        Interrupted: Ctrl-C; the running trials saved a checkpoint, and the same call continues.
        CloudganError: Five trials in a row failed.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    ranges.check(**{name: chosen[name] for name in ("trials", "blocks") if name in chosen})
    given = local_path(str(space))
    if given.is_dir():
        found = _continued(given, keys, config, run, chosen)
        return start_search(given, found, progress)
    base, folder = resolve(keys, config=config, run=run or DEFAULT_RUN, fresh=True)
    found = parse_search({"base": base, "space": read_space(given), **chosen})
    found.check()
    return start_search(folder.path, found, progress)


def start_search(path: Path, config: SearchConfig, progress: Progress) -> Search:
    """Runs the trials of a search that are not finished.

    Args:
        path: Folder of the search, new or that of an earlier process.
        config: The search; a base that never validates validates each epoch.
        progress: Receives a line for each finished trial.

    Raises:
        ConfigError: The folder holds another search, or the showers are too few.
        CloudganError: As of `run_search`.
    """
    _check_extra()
    from cloudgan.search.blocks import make_blocks
    from cloudgan.search.coordinator import Coordinator
    from cloudgan.search.study import SearchFolder, SearchStudy

    folder = SearchFolder(path)
    training = config.base.training
    if not training.validates_every:
        training = training.model_copy(update={"validate_every": 1})
    config = config.model_copy(
        update={"base": config.base.model_copy(update={"training": training})}
    )
    devices = make_blocks(config.blocks)
    if folder.read_config() is None:
        RunFolder(path).refuse_foreign()
    showers = find_showers(config.base, RunFolder(path), may_convert=True)
    check_can_validate(config.base, count_showers(showers))
    with locked_target(folder.journal_file):
        if not isinstance(showers, Path):
            _convert(config, folder, progress)
            showers = folder.shards
        data = config.base.data.model_copy(update={"path": str(showers.resolve())})
        config = config.model_copy(update={"base": config.base.model_copy(update={"data": data})})
        folder.write_config(config)
        study = SearchStudy(folder, config)
        Coordinator(folder, config, study, devices, progress).run()
    return _result(folder, config, study)


def read_search(path: str | Path) -> Search:
    """Reads a search from its folder; nothing is started.

    Raises:
        DataError: The folder holds no search.
    """
    _check_extra()
    from cloudgan.search.study import SearchFolder, SearchStudy

    folder = SearchFolder(local_path(str(path)))
    config = folder.read_config()
    if config is None:
        raise DataError(f"{path}: no search.json; start a search with `cloudgan search SPACE.yaml`")
    return _result(folder, config, SearchStudy(folder, config))


def _check_extra() -> None:
    for name in ("optuna", "sklearn"):
        if find_spec(name) is None:
            raise ConfigError(f"a search needs {name}: {install_command('search')}")


def _continued(
    path: Path,
    keys: Mapping[str, Any],
    config: str | None,
    run: str | None,
    chosen: Mapping[str, Any],
) -> SearchConfig:
    _check_extra()
    from cloudgan.search.study import SearchFolder

    found = SearchFolder(path).read_config()
    if found is None:
        raise ConfigError(
            f"{path} is a folder without search.json; give a YAML file with a space, or the"
            " folder of a search"
        )
    given = [key for key, value in keys.items() if value is not None]
    given += [name for name in chosen if name not in {"trials", "blocks"}]
    given += [name for name, value in (("config", config), ("run", run)) if value is not None]
    if given:
        raise ConfigError(
            f"{path} continues as it began: {', '.join(given)} cannot be given; only --trials and"
            " --blocks can change"
        )
    return found.model_copy(update=dict(chosen))


def _convert(config: SearchConfig, folder: SearchFolder, progress: Progress) -> None:
    """Converts the showers once for all trials, in a process of its own: it imports TensorFlow."""
    named = config.base.data.path
    progress.start("converting showers")
    command = [sys.executable, "-m", "cloudgan", "convert", named, str(folder.shards)]
    done = subprocess.run(  # noqa: S603
        [*command, "--to=tfrecord"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise DataError(done.stderr.strip().rpartition("cloudgan: ")[2] or named)


def _result(folder: SearchFolder, config: SearchConfig, study: SearchStudy) -> Search:
    from cloudgan.search.study import REASON

    trials = tuple(
        Trial(
            number=one.number,
            state={"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(
                one.state.name, "running"
            ),
            value=one.value if one.state.name == "COMPLETE" else None,
            point=dict(one.params),
            seconds=read_if_whole(
                RunFolder(folder.trial(one.number)).record_file
            ).program_seconds(),
            run=folder.trial(one.number),
            reason=str(one.user_attrs.get(REASON, "")),
        )
        for one in study.trials()
    )
    best = study.best()
    return Search(folder.path, config.objective, trials, trials[best.number] if best else None)
