"""Searches and cross-validations on this machine or in pods: `cloudgan search` and `cloudgan crossvalidate`.

Fold f of K holds out every K-th shower from number f on. The runs of a cross-validation are the trials of a search
over the folds (and seeds), so blocks, continuation after a kill, and `--show` are those of a search.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.labels import checked_name
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress
from cloudgan.data.held_out import check_can_validate, check_folds
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.money.price_file import catalog_with
from cloudgan.ranks.layout import make_layout, size_for
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import Page, Section
from cloudgan.reports.page import write as write_page
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.training import CrossvalidateOptions, SearchOptions
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import (
    FOLD,
    Dimension,
    SearchConfig,
    parse_search,
    read_space,
    with_folds,
)
from cloudgan.search.blocks import blocks_of_machine
from cloudgan.search.folder import SearchFolder, check_extra
from cloudgan.search.forecast import SearchForecast, forecast
from cloudgan.search.result import PAGE, Search
from cloudgan.storage.store import open_store
from cloudgan.training.cluster import visible_gpus
from cloudgan.training.forecast import training_share
from cloudgan.training.run_options import resolve

SEED = "training.seed"
_NUMBERS = {"trials", "blocks"}
"""What can change when a search continues, beside its limits."""


@command
def search(options: SearchOptions, *, progress: Progress | None = None) -> Search | SearchForecast:
    """Searches hyper-parameters, or continues a search; with `show` or `describe` starts nothing.

    Args:
        options: The space, or the folder of a search; and what its trials share.
        progress: Receives a line for each finished trial.

    Raises:
        ConfigError: The space or an option is not valid; or another process runs this search.
        Interrupted: Ctrl-C; the running trials saved a checkpoint, and the same call continues.
        CloudganError: Five trials in a row failed, or all of them.
    """
    if options.like and not options.describe:
        raise ConfigError(f"--like={options.like} is only valid with --describe")
    if options.show:
        return read_search(options.space)
    if not options.describe:
        return coordinate(options, "", None, progress or usual_progress())
    _, asked = _requested(options)
    _check_limits(options, asked)
    return forecast(options.space, asked, options.like)


def read_search(path: str) -> Search:
    """Reads a search from its folder; nothing is started."""
    check_extra()
    from cloudgan.search.reading import search_result
    from cloudgan.search.study import read_study

    return search_result(*read_study(path))


def coordinate(
    options: SearchOptions, store: str, launch: Callable[[], object] | None, progress: Progress
) -> Search:
    """Searches on this machine, or with blocks in the pods of a store.

    `launch` starts the pods, when the search and its showers are in the store.
    """
    if launch and (options.show or options.describe or options.search.get("store")):
        raise ConfigError(
            "--show and --describe start no search, and --store stands before --: give `deploy --store=URL --"
            " search SPACE` without them"
        )
    path, asked = _requested(options, store)
    _check_limits(options, asked)
    limits = {"max_hours": options.max_hours, "budget_usd": options.budget_usd}
    found = start_search(path, asked, progress, launch=launch, **limits)
    write_page(found.page(), path / PAGE)
    return found


def _check_limits(options: SearchOptions, config: SearchConfig) -> None:
    for name in ("max_hours", "budget_usd"):
        value = getattr(options, name)
        if value is None:
            continue
        shown = f"--{name.replace('_', '-')}={value:g}"
        if options.describe:
            raise ConfigError(
                f"{shown} limits a search, and --describe starts none; omit one of them"
            )
        if config.store:
            raise ConfigError(
                f"{shown} is of this machine; with --store the limits are those of each `cloudgan deploy -- join`"
            )
        if name == "budget_usd" and config.usd_per_hour is None:
            raise ConfigError(
                f"{shown} needs the price of this machine: start the search with --price-as=OFFER, such as one"
                " of `cloudgan offers --all`, or give --max-hours"
            )


def _requested(options: SearchOptions, store: str = "") -> tuple[Path, SearchConfig]:
    """Returns the folder and the configuration of a search, new or continued; writes nothing."""
    given, keys, chosen = local_path(options.space), options.run_keys, dict(options.search)
    price = _machine_price(options.price_as, options.price_file)
    if given.is_dir():
        own = ("config", "run", *(() if options.describe else ("price_as", "price_file")))
        fixed = [*keys, *(name for name in chosen if name not in _NUMBERS)]
        fixed += [name for name in own if name in options.model_fields_set]
        found = _continued(given, fixed, chosen | price)
        if store and found.store != shared_store(store):
            raise ConfigError(f"{given} has --store={found.store or 'none'}, not --store={store}")
        return given, found
    if store := store or str(chosen.get("store", "")):
        chosen["store"] = shared_store(store)
    base, folder = resolve(keys, config=options.config, run=options.run, fresh=True)
    if chosen.get("folds", 1) > 1:
        base = with_folds(base, int(chosen["folds"]))
    space = read_space(given)
    found = parse_search({"base": base, "space": space, **chosen, **price})
    found.check()
    if found.store:
        check_pods(folder.path.name, found, chosen)
    return folder.path, found


def _continued(path: Path, fixed: list[str], changes: dict[str, Any]) -> SearchConfig:
    """Returns the search in a folder, with other numbers of trials and blocks."""
    check_extra()
    found = SearchFolder(path).read_config()
    if found is None:
        raise ConfigError(
            f"{path} is a folder without search.json; give a YAML file with a space, or the"
            " folder of a search"
        )
    if fixed:
        raise ConfigError(
            f"{path} continues as it began: {', '.join(fixed)} cannot be given; only --trials,"
            " --blocks, --max-hours and --budget-usd can change"
        )
    _check_trials(path, changes.get("trials"))
    if found.store:
        check_pods(path.resolve().name, found, changes)
    return found.model_copy(update=changes)


def _check_trials(path: Path, wanted: int | None) -> None:
    """Checks that a search is not asked for fewer trials than it has begun."""
    if wanted is None:
        return
    from cloudgan.search.study import read_study

    begun = sum(bool(trial.params) for trial in read_study(path)[2].trials())
    if wanted < begun:
        raise ConfigError(
            f"--trials={wanted}: {path} has begun {begun}; give --trials={begun} or more"
        )


def shared_store(store: str) -> str:
    """Returns the URL of a store, a folder by its absolute path."""
    if store.startswith(CLAIM):
        raise ConfigError(
            f"--store={store}: only pods reach a volume claim, and this machine publishes the search; give a bucket"
        )
    open_store(store)
    return store.rstrip("/") if "://" in store else str(local_path(store).resolve())


def check_pods(name: str, config: SearchConfig, chosen: dict[str, Any]) -> None:
    """Checks that a trial needs nothing that a block in a pod does not have."""
    try:
        checked_name(name)
    except ConfigError as error:
        raise ConfigError(f"--run names the search in the store: {error}") from error
    base = config.base
    if "blocks" in chosen:
        raise ConfigError(
            f"--blocks={chosen['blocks']} are of this machine; with --store the blocks are the nodes of"
            f" `cloudgan deploy --nodes=N -- join {name}`"
        )
    if base.training.workers > 1:
        raise ConfigError(
            f"--workers={base.training.workers} with --store is not built: a block in a pod trains in one process or"
            " with --parallel=MODE --ranks=N; --replicas=N uses several devices of its node"
        )
    if base.training.init_from:
        raise ConfigError(
            f"training.init_from: {base.training.init_from} is a folder of this machine, which pods cannot"
            " read; omit it, or omit --store"
        )


def start_search(
    path: Path,
    config: SearchConfig,
    progress: Progress,
    *,
    max_hours: float | None = None,
    budget_usd: float | None = None,
    launch: Callable[[], object] | None = None,
) -> Search:
    """Runs the trials of a search that are not finished; a base that never validates validates each epoch.

    After `max_hours` of this process, or when this machine has cost `budget_usd` since the search began, running
    trials are saved and the search ends with the best so far. `launch` starts the blocks of a search with a
    store, once it is published there.

    Raises:
        ConfigError: The folder or the store holds another search, or the showers are too few.
        StoreError: The store cannot be reached, or not written.
        CloudganError: Five trials in a row failed, or all of them.
    """
    check_extra()
    _check_ranks(config.base.parallel)
    from cloudgan.search.reading import search_result
    from cloudgan.search.shared import follow_search, store_of, study_in
    from cloudgan.search.trial_loop import train_here
    from cloudgan.training.showers import as_store, count_showers, find_showers

    folder = SearchFolder(path)
    training = config.base.training
    if not training.validates_every:
        training = training.model_copy(update={"validate_every": 1})
    config = config.model_copy(
        update={"base": config.base.model_copy(update={"training": training})}
    )
    if not config.store:
        blocks_of_machine(config.blocks)
    if folder.read_config() is None:
        RunFolder(path).refuse_foreign(folder.config_file.name)
    base, showers = find_showers(config.base, RunFolder(path))
    config = config.model_copy(update={"base": base})
    count = count_showers(showers)
    check_folds(config.fold_count, count)
    check_can_validate(config.base, count, asks="a search")
    _check_reaches_validation(config, count)
    with RunFolder(path).locked():
        if config.store:  # before long work
            study_in(store_of(folder, config), folder.path.name, config)
        lock = folder.journal_lock
        if lock.exists() or lock.is_symlink():
            progress.say(f"waits a few seconds for {lock}, which a killed process left")
        showers = as_store(showers, RunFolder(path), progress)
        data = config.base.data.model_copy(update={"path": str(showers.resolve())})
        config = config.model_copy(update={"base": config.base.model_copy(update={"data": data})})
        folder.write_config(config)
        limit = ""
        if config.store:
            study = follow_search(folder, config, showers, progress, launch)
        else:
            study, limit = train_here(
                folder, config, progress, max_hours=max_hours, budget_usd=budget_usd
            )
    trials = study.trials()
    if trials and all(trial.state.name == "FAIL" for trial in trials):
        raise CloudganError(
            f"all {len(trials)} trials failed, the newest with: {trials[-1].user_attrs.get('reason')}."
            f" `cloudgan search {path} --show` lists them; start again with another --run"
        )
    return search_result(folder, config, study, limit)


def _check_ranks(parallel: ParallelConfig) -> None:
    """Checks that each trial can start its ranks."""
    if parallel.ranks:
        make_layout(parallel.ranks, parallel)
    elif parallel.has_ranks:
        fitting = size_for(2 * parallel.masters, parallel)
        raise ConfigError(
            f"--parallel={parallel.mode} in a search needs --ranks=N, such as --ranks={fitting}: each trial starts"
            " its own ranks"
        )


def _check_reaches_validation(config: SearchConfig, showers: int) -> None:
    """Checks that trials train until their first validation, where the number of replicas is known."""
    base = config.base
    limit, workers = base.training.max_steps, base.training.workers
    replicas = base.training.replicas or (None if config.store or visible_gpus() else 1)
    if limit is None or replicas is None or base.parallel.has_ranks:
        return
    searched = {"training.max_steps", "training.batch_per_replica", "training.global_batch_size"}
    if searched & set(config.space):
        return
    batch = base.global_batch(replicas * workers)
    trained = training_share(base, showers)
    epochs = base.training.validates_every
    if base.data.last_batch == "drop":
        needed = epochs * (trained // batch)
    else:
        needed = -(-epochs * trained // batch)
    if limit < needed:
        raise ConfigError(
            f"--max-steps={limit} ends every trial before its first validation, which is after step {needed}:"
            f" give --max-steps={needed} or more, a larger --batch, or fewer showers"
        )


def _machine_price(offer: str | None, price_file: str | None) -> dict[str, Any]:
    """Returns the price of this machine as keys of a search; empty without an offer."""
    if offer is None:
        if price_file is None:
            return {}
        raise ConfigError(f"--price-file={price_file} needs --price-as=OFFER, one of its nodes")
    own = local_path(price_file, source="--price-file") if price_file else None
    row = catalog_with(own).row(offer)
    return {"usd_per_hour": row.usd_per_hour, "priced_as": offer}


class CrossValidation(Result):
    """The runs of all folds, and mean and spread of their objective."""

    search: Search = Field(description="the runs, one trial each")
    mean: float | None = Field(
        None, description="of the objective over all folds and repeats; null: a fold has no number"
    )
    deviation: float | None = Field(
        None, description="standard deviation over the folds (means over their repeats)"
    )
    variance_shares: dict[str, float] | None = Field(
        None,
        description="of the variance between all runs: between folds (data), between repeats (initial"
        " weights), and the rest; null with one repeat",
    )

    def view(self) -> View:
        """Returns a row per run, below mean and spread."""
        found, name, notes = self.search.view(), self.search.objective, []
        said = f"incomplete: a fold has no {name} and is not left out, so there is no mean yet"
        if self.mean is not None and self.deviation is not None:
            said = f"{name} {self.mean:.4g} ± {self.deviation:.2g} (standard deviation over folds)"
        if self.variance_shares:
            shares = (f"{name} {share:.0%}" for name, share in self.variance_shares.items())
            notes.append(f"shares of the variance: {', '.join(shares)}")
        path = self.search.path
        shown = (f"cloudgan crossvalidate --show={path}", "shows it again")
        return replace(
            found,
            line=f"{path}: {self.search.states()}; {said}",
            notes=(*found.notes, *notes),
            commands=(shown, (f"cloudgan compare {path}/trials/*", "the runs side by side")),
            done=self.mean is not None,
        )

    def page(self) -> Page:
        """Returns the table of the runs, below mean and spread."""
        view = self.view()
        tables = tuple(one for one in (view.table,) if one)
        title = f"Cross-validation {self.search.path.name}"
        return Page(title, f"{view.line}.", (Section("Runs", tables),))


@command
def crossvalidate(
    options: CrossvalidateOptions, *, progress: Progress | None = None
) -> CrossValidation:
    """Trains one run per fold and repeat, or continues; with `show` starts nothing.

    Args:
        options: What the runs share, and the folds.
        progress: Receives a line for each finished run.

    Raises:
        ConfigError: An option is not valid, or a fold has too few showers to validate.
        DataError: The folder of `show` holds no cross-validation.
        CloudganError: Five runs in a row failed.
    """
    if options.show:
        search = read_search(options.show)
        if search.trials and not any(FOLD in trial.point for trial in search.trials):
            raise DataError(
                f"{options.show} holds a search, not a cross-validation; see `cloudgan search --show`"
            )
        return summarize(search)
    return coordinate_folds(options, "", None, progress or usual_progress())


def coordinate_folds(
    options: CrossvalidateOptions,
    store: str,
    launch: Callable[[], object] | None,
    progress: Progress,
) -> CrossValidation:
    """Trains one run per fold and repeat on this machine, or in the pods of a store.

    Args:
        options: As of `crossvalidate`.
        store: Of the pods; empty: this machine trains.
        launch: As of `coordinate`.
        progress: Receives a line for each finished run.

    Raises:
        ConfigError: As of `crossvalidate`, or the options start nothing.
    """
    if options.show:
        raise ConfigError(f"--show={options.show} starts nothing: give it without `deploy`")
    run, folds, repeats = options.run, options.folds, options.repeats
    base, folder = resolve(options.run_keys, config=options.config, run=run, fresh=True)
    base = with_folds(base, folds)
    seed = base.training.seed
    space = {FOLD: Dimension(choices=tuple(range(folds)))}
    if repeats > 1:
        space[SEED] = Dimension(choices=tuple(range(seed, seed + repeats)))
    asked: dict[str, Any] = {
        "sampler": "grid",
        "trials": folds * repeats,
        "blocks": options.blocks,
        "objective": options.objective,
        "store": shared_store(store) if store else "",
    }
    config = parse_search({"base": base, "space": space} | asked)
    if store:
        own = {"blocks": options.blocks} if "blocks" in options.model_fields_set else {}
        check_pods(folder.path.name, config, own)
    found = summarize(start_search(folder.path, config, progress, launch=launch))
    write_page(found.page(), folder.path / PAGE)
    return found


def summarize(search: Search) -> CrossValidation:
    """Returns mean, spread and shares of the variance (two-way analysis of variance)."""
    values = {
        (int(trial.point[FOLD]), int(trial.point.get(SEED, 0))): trial.value
        for trial in search.trials
        if FOLD in trial.point
    }
    folds = sorted({fold for fold, _ in values})
    seeds = sorted({seed for _, seed in values})
    known = {key: value for key, value in values.items() if value is not None}
    if len(folds) < 2 or len(known) < max(len(search.trials), len(folds) * len(seeds)):  # noqa: PLR2004 - a spread needs two
        return CrossValidation(search=search)
    mean = statistics.mean(known.values())
    by_fold = [statistics.mean(known[fold, seed] for seed in seeds) for fold in folds]
    by_seed = [statistics.mean(known[fold, seed] for fold in folds) for seed in seeds]
    shares = None
    total = sum((value - mean) ** 2 for value in known.values())
    if len(seeds) > 1 and total:
        data = len(seeds) * sum((value - mean) ** 2 for value in by_fold) / total
        weights = len(folds) * sum((value - mean) ** 2 for value in by_seed) / total
        shares = {"data": data, "initial weights": weights, "rest": max(0.0, 1 - data - weights)}
    return CrossValidation(
        search=search,
        mean=mean,
        deviation=statistics.stdev(by_fold),
        variance_shares=shares,
    )
