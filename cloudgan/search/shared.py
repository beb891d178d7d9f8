"""A search whose blocks are in pods: published in a store, and followed on this machine, which trains nothing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from optuna.trial import FrozenTrial

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.children import StopSignal
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, CredentialsError, TryAgain
from cloudgan.core.progress import Progress
from cloudgan.data.manifest import MANIFEST
from cloudgan.schema import record
from cloudgan.schema.quality import best_step
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.search import FILE_NAME, SearchConfig, TrialRun, search_prefix
from cloudgan.search.blocks import LOG, BlockWatch
from cloudgan.search.folder import SearchFolder
from cloudgan.search.journal import ENTRIES, StoreJournal
from cloudgan.search.study import REASON, SearchStudy, state_name
from cloudgan.search.trial_loop import raise_if_failing, say_end
from cloudgan.storage.bucket_showers import BucketShowers
from cloudgan.storage.store import (
    ObjectMissingError,
    Store,
    StoreError,
    open_store,
)

_LOOK_SECONDS, _LIST_SECONDS = 2.0, 5.0
_ABSENT_SECONDS = 1800.0


def store_of(folder: SearchFolder, config: SearchConfig) -> Store:
    """Opens the store of a search; sends no request."""
    return open_store(f"{config.store}/{search_prefix(folder.path.name)}")


def study_in(store: Store, name: str, config: SearchConfig) -> tuple[SearchStudy, StoreJournal]:
    """Opens the study of a search in a store, or creates it; returns its journal too."""
    journal = StoreJournal(store)
    return SearchStudy(config, journal, name, f"{store.url}/{ENTRIES}"), journal


def publish(store: Store, config: SearchConfig, data: str) -> None:
    """Writes a search to a store, where blocks find it."""
    showers = config.base.data.model_copy(update={"path": data})
    base = config.base.model_copy(update={"data": showers})
    shared = config.model_copy(update={"base": base})
    before = _published(store)
    if before and before.base.data.path != data:
        raise ConfigError(
            f"{store.url} has a search of this name, which trains with other showers: give another --run, or"
            " continue that one from its own folder"
        )
    store.put(FILE_NAME, shared.model_dump_json().encode())


def open_published(store: Store, name: str) -> tuple[SearchConfig, SearchStudy] | None:
    """Returns a search in a store, and its study; None: it is not published yet."""
    config = _published(store)
    if config is None:
        return None
    place = f"{store.url}/{ENTRIES}"
    return config, SearchStudy(config, StoreJournal(store), name, place, read_only=True)


def _published(store: Store) -> SearchConfig | None:
    try:
        return parse_model(store.read(FILE_NAME), SearchConfig, FILE_NAME)
    except ObjectMissingError:
        return None


def join_command(config: SearchConfig, name: str) -> str:
    """Returns the command that starts the blocks of a search with a store."""
    mode, engine = config.base.parallel.mode, config.base.training.engine
    own = "" if mode == "none" else f" --parallel={mode}"
    own += "" if engine == "tensorflow" else f" --engine={engine}"
    return f"cloudgan deploy --store={config.store} --nodes=N -- join {name}{own}"


class Follower:
    """Says which trials of a published search end, and fetches their records and checkpoints."""

    def __init__(
        self,
        folder: SearchFolder,
        config: SearchConfig,
        published: tuple[SearchStudy, StoreJournal],
        progress: Progress,
        *,
        absent_seconds: float = _ABSENT_SECONDS,
    ) -> None:
        """Prepares to follow, for `absent_seconds` at most without any block; sends no request."""
        self._folder, self._config, self._progress = folder, config, progress
        self._study, self._journal = published
        self._store = self._journal.store
        self._watch = BlockWatch(self._store)
        self._absent_seconds, self._alive_seconds = absent_seconds, time.monotonic()
        self._blocks: dict[str, str] = {}
        self._list_seconds = 0.0
        self._fetched: set[int] = set()
        self._mirrored = 0
        self.stop = StopSignal()

    def run(self) -> None:
        """Follows until all trials are finished."""
        failed_before = self._study.failing()
        ended = {trial.number for trial in self._study.trials() if trial.state.is_finished()}
        self._progress.start("search", self._study.size, "trials", done=len(ended))
        while self.stop.number is None:
            try:
                for trial in self._study.trials():
                    if trial.number in self._fetched:
                        continue
                    for run in self._study.runs_of(trial):
                        self._fetch(trial, run)
                    if trial.state.is_finished():
                        self._fetched.add(trial.number)
                        if trial.number not in ended:
                            self._say(trial)
                self._mirror()
                raise_if_failing(self._study, failed_before, self._run_folder)
                if self._study.is_over and len(self._fetched) == len(self._study.trials()):
                    return
                self._look_at_blocks()
            except CredentialsError:
                raise
            except StoreError as error:
                self._progress.say(f"{error}; retrying")
            time.sleep(_LOOK_SECONDS)

    def _run_folder(self, run: TrialRun) -> RunFolder:
        return RunFolder(self._folder.run(run))

    def _say(self, trial: FrozenTrial) -> None:
        what, names = state_name(trial), self._config.objectives
        if what == "failed":
            what = f"failed: {trial.user_attrs.get(REASON)}"
        elif what == "complete":
            pairs = zip(names, trial.values, strict=True)
            what = ", ".join(f"{name} {value:.4g}" for name, value in pairs)
        say_end(self._progress, trial.number, what, trial.params)

    def _mirror(self) -> None:
        """Copies the journal to the folder, where `--show`, `status` and Optuna's dashboard read it."""
        if len(self._journal.entries) > self._mirrored:
            lines = (json.dumps(entry) + "\n" for entry in self._journal.entries)
            write_atomic(self._folder.journal_file, "".join(lines).encode())
            self._mirrored = len(self._journal.entries)

    def _fetch(self, trial: FrozenTrial, run: TrialRun) -> None:
        """Downloads the record of a run; of a trial that ended also its log, the newest checkpoint and the best."""
        if not trial.params:
            return
        folder, names = self._run_folder(run), self._store.list(f"{run.path}/")
        if not names:
            return
        files = {record.FILE_NAME: folder.record_file}
        if folder.read_config() is None:
            folder.write_config(self._config.run_config(trial.params, run.name, run.fold))
        if trial.state.is_finished():
            files[LOG] = folder.path / LOG
        for name, path in files.items():
            if f"{run.path}/{name}" in names:
                self._store.get(f"{run.path}/{name}", path)
        if not trial.state.is_finished():
            return
        prefix = f"{run.path}/checkpoints/"
        steps = checkpoint_steps(name.removeprefix(prefix) for name in names)
        best = best_step(record.read_if_whole(folder.record_file).validations())
        for step in {*steps[-1:], *({best} & set(steps))}:
            path = folder.checkpoints / checkpoint_name(step or 0)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._store.get(f"{prefix}{path.name}", path)

    def _look_at_blocks(self) -> None:
        """Says which blocks came and went."""
        now = time.monotonic()
        if now < self._list_seconds:
            return
        self._list_seconds = now + _LIST_SECONDS
        names = self._watch.names()
        for name in names:
            before, why = self._blocks.get(name), self._watch.why_gone(name, names)
            self._blocks[name] = why
            if before != why and (before is not None or not why):
                self._progress.say(f"block {name} {why or 'is here'}")
        if "" in self._blocks.values():
            self._alive_seconds = now
        elif now - self._alive_seconds > self._absent_seconds:
            raise TryAgain(
                f"no block for {self._absent_seconds / 60:.0f} min; start one with"
                f" `{join_command(self._config, self._folder.path.name)}`, and continue with `cloudgan search"
                f" {self._folder.path}`"
            )


def follow_search(
    folder: SearchFolder,
    config: SearchConfig,
    showers: Path,
    progress: Progress,
    launch: Callable[[], object] | None,
) -> SearchStudy:
    """Publishes a search in its store, and follows the blocks that train its trials; returns its study.

    `showers` is the folder of the store of showers; `launch` starts the blocks, None: the user does.
    """
    digest = hashlib.sha256((showers / MANIFEST).read_bytes()).hexdigest()[:16]
    remote = BucketShowers(open_store(f"{config.store}/data/{digest}"))
    if not remote.is_copy_of(showers):
        remote.upload(showers, progress)
    store, name = store_of(folder, config), folder.path.name
    published = study_in(store, name, config)
    publish(store, config, f"data/{digest}")
    if launch:
        launch()
    else:
        progress.say(f"blocks join with: {join_command(config, name)}")
    follower = Follower(folder, config, published, progress)
    again = f"the search stopped; its blocks go on, and `cloudgan search {folder.path}` follows them again"
    with follower.stop.by_signals(again):
        follower.run()
    return published[0]
