"""Exchange with the store: staged showers, the run folder's copy, background uploads, a search's status."""

from __future__ import annotations

import gzip
import hashlib
import math
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.schema import coevolution, record
from cloudgan.schema.coevolution import CELLS, CoevolutionConfig, newest_point, saved_in_store
from cloudgan.schema.config import RunConfig
from cloudgan.schema.quality import best_step
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.schema.search import STATUS, BlockStatus
from cloudgan.storage.bucket_showers import BucketShowers, is_url
from cloudgan.storage.store import ObjectMissingError, Store
from cloudgan.worker.pod_environment import PodEnvironment

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 1.0


@dataclass
class Upload:
    """One object in the store that is replaced when its content changes.

    Attributes:
        key: Returns a value that changes with the content; None: there is none.
        periodic: Whether it is also uploaded at every interval, and at once when the key changes.
    """

    name: str
    key: Callable[[], object]
    put: Callable[[], None]
    every_seconds: float = 0.0
    periodic: bool = False
    _uploaded_key: object = field(default=None, init=False)
    _tried_seconds: float = field(default=-math.inf, init=False)

    def is_pending(self) -> bool:
        """Whether the content differs from the store's."""
        key = self.key()
        return key is not None and key != self._uploaded_key

    def is_due(self, now_seconds: float) -> bool:
        """Whether it is time for the upload."""
        waited = now_seconds - self._tried_seconds
        if self.periodic and waited >= self.every_seconds:
            return True
        least = _RETRY_SECONDS if self.periodic else self.every_seconds
        return waited >= least and self.is_pending()

    def upload(self, now_seconds: float) -> None:
        """Uploads the content."""
        self._tried_seconds = now_seconds
        key = self.key()
        self.put()
        self._uploaded_key = key


def file_upload(
    store: Store, name: str, path: Path, *, every_seconds: float, compress: bool = False
) -> Upload:
    """Returns the upload of a file, optionally compressed with gzip."""

    def key() -> object:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def put() -> None:
        content = path.read_bytes()
        store.put(name, gzip.compress(content) if compress else content)

    return Upload(name, key, put, every_seconds=every_seconds)


class Uploader:
    """Uploads in a thread, so that a slow store does not block the worker."""

    def __init__(self, uploads: Sequence[Upload], say: Callable[[str], None]) -> None:
        """Starts the thread; a failing upload is logged once until it succeeds."""
        self._uploads, self._say = uploads, say
        self._failing: set[str] = set()
        self._problem = ""
        self._deadline = math.inf
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    def close(self, last: Sequence[Upload], *, patience_seconds: float) -> tuple[str, ...]:
        """Uploads all pending content and `last`, and ends.

        Returns the names that were not uploaded in time, with the last error.
        """
        self._uploads = (*self._uploads, *last)
        self._deadline = time.monotonic() + patience_seconds
        self._closing.set()
        self._thread.join(max(0.0, patience_seconds))
        why = f" ({self._problem})" if self._problem else ""
        return tuple(f"{each.name}{why}" for each in self._uploads if each.is_pending())

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            for each in self._uploads:
                if not self._closing.is_set() and each.is_due(time.monotonic()):
                    self._try(each)
        while time.monotonic() < self._deadline and any(map(Upload.is_pending, self._uploads)):
            for each in filter(Upload.is_pending, self._uploads):
                self._try(each)
            if self._failing:
                time.sleep(_LOOK_SECONDS)

    def _try(self, upload: Upload) -> None:
        try:
            upload.upload(time.monotonic())
        except Exception as error:  # noqa: BLE001  one upload must not end the others
            self._problem = str(error)
            if upload.name not in self._failing:
                self._failing.add(upload.name)
                self._say(f"{upload.name} was not uploaded: {error}; retrying")
        else:
            self._failing.discard(upload.name)


_LAST_BEAT_SECONDS = 10.0


class StatusBeat:
    """Writes the status of a search's block at every beat and soon after it changes.

    It has a thread, so that downloads and uploads do not delay it.
    """

    def __init__(
        self, store: Store, status: BlockStatus, say: Callable[[str], None], *, every_seconds: float
    ) -> None:
        """Starts it; a failing store is logged once until it works again."""
        self._store = store
        self.status, self._changes, self._lock = status, 0, threading.Lock()
        self._began = self._written = time.monotonic()
        beat = Upload(STATUS, lambda: self._changes, self._put, every_seconds, periodic=True)
        self._uploader = Uploader([beat], say)

    @property
    def seconds(self) -> float:
        """Time since the start of the block."""
        return time.monotonic() - self._began

    @property
    def silent_seconds(self) -> float:
        """Time since the last beat that reached the store."""
        return time.monotonic() - self._written

    def change(self, **values: Any) -> None:
        """Changes the status and writes it soon."""
        with self._lock:
            self.status = self.status.model_copy(update=values)
            self._changes += 1

    def close(self) -> None:
        """Writes that the block has left, and ends the thread."""
        self.change(left=True)
        self._uploader.close([], patience_seconds=_LAST_BEAT_SECONDS)

    def _put(self) -> None:
        began = time.monotonic()
        with self._lock:
            values = {"beat": self.status.beat + 1, "seconds": began - self._began}
            self.status = self.status.model_copy(update=values)
            content = self.status.model_dump_json().encode()
        self._store.put(STATUS, content)
        self._written = began


CHECKPOINTS = "checkpoints"


class RunSync:
    """Synchronises a run's local folder with its copy in the store."""

    def __init__(self, folder: RunFolder, store: Store) -> None:
        self._folder, self._store = folder, store

    def prepare_chief(self, config: RunConfig) -> None:
        """Downloads the record if the store's is longer; uploads missing checkpoints."""
        if not self._folder.config_file.exists() and (there := self._read("run.yaml")):
            write_atomic(self._folder.config_file, there)
        own = self._folder.record_file
        stored = self._read(own.name)
        if stored and len(stored) > (own.stat().st_size if own.exists() else 0):
            write_atomic(own, stored)
        self._folder.check(config)
        self._write_config(config)
        self.push_checkpoints()

    def prepare_follower(self, config: RunConfig) -> None:
        """Removes local checkpoints: the chief uses only those in the store."""
        shutil.rmtree(self._folder.checkpoints, ignore_errors=True)
        self._write_config(config)

    def _write_config(self, config: RunConfig) -> None:
        self._folder.write_config(config)
        if config.grid:
            write_json(self._folder.path / coevolution.FILE_NAME, config.grid)

    def push_checkpoints(self) -> None:
        """Uploads newer checkpoints and the best one if the store lacks them."""
        there, folder = self._steps_there(), self._folder.checkpoints
        newest = there[-1] if there else -1
        best = best_step(record.read_if_whole(self._folder.record_file).validations())
        for step in self._folder.saved_steps():
            if step > newest or (step == best and step not in there):
                name = checkpoint_name(step)
                self._store.put(f"{CHECKPOINTS}/{name}", folder / name)

    def newest_step(self, grid: CoevolutionConfig | None = None) -> int | None:
        """Returns the step of the newest checkpoint in the store, of a grid the iteration; None without one."""
        if grid:
            saved = saved_in_store(self._store.list(f"{CELLS}/"), grid.cells)
            return newest_point(saved, asynchronous=grid.asynchronous) or None
        there = self._steps_there()
        return there[-1] if there else None

    def _steps_there(self) -> list[int]:
        names = self._store.list(f"{CHECKPOINTS}/step-")
        return checkpoint_steps(name.rpartition("/")[2] for name in names)

    def _read(self, name: str) -> bytes | None:
        try:
            return self._store.read(name)
        except ObjectMissingError:
            return None


def stage_showers(pod: PodEnvironment, progress: Progress) -> None:
    """Downloads the store of showers that run.yaml names, unless they are a local folder or the task has none.

    A relative path is relative to the store. The run's folder links to it; `data.path`
    stays unchanged, so that the run keeps its identity.
    """
    named, grid = pod.config.data.path, pod.config.grid
    if grid and grid.task != "showers":
        return
    if not named:
        raise ConfigError(
            "run.yaml names no showers; set data.path to a store from `cloudgan convert` or a URL"
        )
    if Path(named).is_absolute():
        return
    url = named if is_url(named) else f"{pod.store_url}/{named}"
    target = pod.work / "data" / hashlib.sha256(url.encode()).hexdigest()[:16]
    target.mkdir(parents=True, exist_ok=True)
    BucketShowers.from_url(url).download(target, progress)
    store = pod.folder.store
    store.parent.mkdir(parents=True, exist_ok=True)
    store.unlink(missing_ok=True)
    store.symlink_to(target, target_is_directory=True)


def in_background(function: Callable[[], None], name: str) -> Callable[[], bool]:
    """Calls a function in a thread; the result says whether it has returned, and raises its exception."""
    future: Future[bool] = Future()

    def run() -> None:
        try:
            function()
            future.set_result(True)
        except Exception as error:  # noqa: BLE001  raised again by the result
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return lambda: future.done() and future.result()
