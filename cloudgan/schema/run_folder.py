"""The folder of a run: names of its files, its run.yaml, and the lock of its writer."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import yaml

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    DataError,
    UnknownNameError,
    counted,
    shorten,
)
from cloudgan.core.file_lock import HeldError, take
from cloudgan.core.local_path import local_path
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig, differences, parse_config

RUNS = Path("runs")
"""Where the runs of the current folder are: the run NAME is runs/NAME."""
_NAMELESS = ("", "..")
_HOLDS = {
    "record.jsonl": "a run of `cloudgan train`",
    "coevolution.json": "a grid of `cloudgan evolve`",
    "search.json": "a search",
    "plan.json": "a run of `cloudgan deploy`",
}
"""What a folder holds that has a file."""
_OF_A_RUN = frozenset((*_HOLDS, "run.yaml", "launch.json", "study.json", "checkpoints"))
_WRITTEN = (
    *(*_HOLDS, "run.yaml", "launch.json", "study.json", "journal.log", "data_summary.json"),
    *("data", "checkpoints", "cells", "logs", "ranks", "trials"),
)
"""What a command writes into a folder before it records the first step."""
_CHECKPOINT = re.compile(r"step-(\d{9})\.npz")
Step = int | Literal["best"] | None
"""A checkpoint of a run: the number of its step, the best one that was validated, or the newest."""


def checkpoint_name(step: int) -> str:
    """Returns the file name of the checkpoint of a step, in the folder and in the store."""
    return f"step-{step:09d}.npz"


def checkpoint_steps(names: Iterable[str]) -> list[int]:
    """Returns the steps of the checkpoint files among `names`, in ascending order."""
    found = (_CHECKPOINT.fullmatch(name) for name in names)
    return sorted(int(name[1]) for name in found if name)


def find_run_folder(given: str | Path) -> RunFolder:
    """Returns the folder of an existing run of any kind.

    Args:
        given: The folder, or its name in runs/, such as ``mine`` or ``search/trials/0007``.

    Raises:
        ConfigError: No run is there; names the nearest one of this folder.
    """
    folder = RunFolder(given).path
    found = next((place for place in (folder, RUNS / folder) if _holds_run(place)), None)
    if found is not None:
        return RunFolder(found)
    name = shorten(str(given))
    with suppress(OSError, ValueError):  # no name of a file
        if folder.is_dir():
            raise ConfigError(
                f"{name} is not the folder of a run: it has no run.yaml or record.jsonl"
            )
        if folder.is_file():
            raise ConfigError(
                f"{name} is a file; a run is given by its name or folder, such as runs/mine. Two files of showers are"
                f" compared with `cloudgan validate --generated={name} --reference=FILE`"
            )
    known = [path.name for path in known_runs()]
    if known:
        raise UnknownNameError("run", str(folder).removeprefix("runs/"), known)
    raise ConfigError(
        f"there is no run {name}, and no run in runs/; `cloudgan train showers.h5 --run=runs/mine` trains one. To find"
        " a run that another folder or machine launched, give --provider, or change to the folder that has runs/"
    )


def new_run_path(given: str) -> str:
    """Returns the folder of a run to write: a bare name is in runs/, unless a run of that name is here."""
    is_name = given and "/" not in given and given not in (".", "..", "~")
    return str(RUNS / given) if is_name and not _holds_run(Path(given)) else given


def shown_run(path: str | Path) -> str:
    """Returns the name of a run in the folder runs, else its path: what commands take."""
    parts = Path(path).parts
    return "/".join(parts[1:]) if parts[:1] == RUNS.parts and parts[1:] else str(path)


def known_runs() -> list[Path]:
    """Returns the folders in runs/ and beside it that hold a run, by name."""
    places = (*RUNS.glob("*"), *Path().glob("*"))
    return sorted((path for path in places if _holds_run(path)), key=lambda path: path.name)


def _holds_run(path: Path) -> bool:
    try:
        return any((path / name).exists() for name in _OF_A_RUN)
    except (OSError, ValueError):  # no name of a file
        return False


class RunFolder:
    """Paths of the files of a run; only the methods access the disk."""

    def __init__(self, path: Path | str) -> None:
        """Names the files of the run in the folder `path`."""
        if not str(path):
            raise ConfigError("the folder of the run is empty; give a folder such as runs/NAME")
        found = local_path(path, advice="--checkpoints copies the checkpoints to a bucket")
        # The name of the folder is that of the run: `.` and `..` have none.
        self.path = found if found.name not in _NAMELESS else Path(os.path.abspath(found))  # noqa: PTH100
        self.lock_file = self.path / ".lock"
        self.config_file = self.path / "run.yaml"
        self.record_file = self.path / "record.jsonl"
        self.launch_file = self.path / "launch.json"
        self.cost_file = self.path / "cost.json"
        self.verdict_file = self.path / "verdict.json"
        self.trace_file = self.path / "trace.json"
        self.summary_file = self.path / "data_summary.json"
        self.store = self.path / "data"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"

    def config(self) -> RunConfig:
        """Returns run.yaml.

        Raises:
            DataError: The folder holds none.
        """
        config = self.read_config()
        if config is None:
            raise DataError(f"{self.path}: no run.yaml; train the run first (`cloudgan train`)")
        return config

    def read_config(self) -> RunConfig | None:
        """Returns the configuration of the run; None: the folder holds no run."""
        if not self.config_file.exists():
            return None
        return parse_config(read_yaml(self.config_file), str(self.config_file))

    def write_config(self, config: RunConfig) -> None:
        """Writes run.yaml atomically."""
        self.create()
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_atomic(self.config_file, text.encode())

    def create(self) -> None:
        """Creates the folder.

        Raises:
            ConfigError: It cannot be a folder: a file is there, the name is too long, or the disk is
                read-only.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"{shorten(str(self.path), 300)}: cannot be the folder of a run ({reason}); choose"
                " another --run"
            ) from error

    def refuse_foreign(self, *own: str) -> None:
        """Checks that the folder is missing, empty or the caller's, before the caller writes into it.

        Args:
            own: The file that makes the folder the caller's, and files of others beside which it may write.
                Default: those of `train`, which continues a launched run.
        """
        try:
            names = {found.name for found in self.path.iterdir()} if self.path.is_dir() else set()
        except OSError:
            return  # the first write says why
        foreign = sorted(name for name in names if not name.startswith("."))
        if foreign and names.isdisjoint(_OF_A_RUN):
            raise ConfigError(
                f"{self.path} is not the folder of a run: it has {shorten(', '.join(foreign[:3]))};"
                " nothing was written. Give a new folder, such as --run=runs/mine"
            )
        own = own or ("record.jsonl", "plan.json")
        others = [_HOLDS[name] for name in _HOLDS if name in names.difference(own)]
        if others and own[0] not in names:
            raise ConfigError(
                f"{self.path} holds {others[0]}, which stays as it is; give a new --run (or --name)"
            )

    def check(self, config: RunConfig) -> None:
        """Checks that the folder is empty or holds this run."""
        there = self.read_config() if self.has_trained() else None
        if there and there.mathematics() != config.mathematics():
            ours, trained = config.model.preset, there.model.preset
            if ours != trained:
                raise ConfigError(
                    f"{self.path} holds a run of the preset {trained}, and the preset asked for is {ours}. Omit"
                    f" --preset to resume it, or give another folder, such as --run={self.path}-{ours}"
                )
            found = differences(config.mathematics(), there.mathematics())
            raise ConfigError(
                f"{self.path} holds another run; requested and existing configuration differ in"
                f" {'; '.join(found)}. Choose another --run, or omit these flags to resume it"
            )
        if there:
            self._refuse_less(config, there)

    def _refuse_less(self, config: RunConfig, there: RunConfig) -> None:
        """Refuses fewer epochs or steps than were trained: the run cannot go back, and its run.yaml would be wrong."""
        trained = record.read_if_whole(self.record_file)
        # Checkpoints after the newest one may be lost: the run goes on from there.
        if steps := self.saved_steps():
            kept = [each for each in trained.lines if each.step <= steps[-1]]
            trained = trained.model_copy(update={"lines": tuple(kept)})
        done = {
            "epochs": (trained.finished_epochs(), config.training.epochs, there.training.epochs),
            "max-steps": (
                max((each.step for each in trained.epochs()), default=0),
                config.training.max_steps or sys.maxsize,
                there.training.max_steps or sys.maxsize,
            ),
        }
        for flag, (have, asked, before) in done.items():
            if asked < min(have, before):
                raise ConfigError(
                    f"--{flag}={asked}: {self.path} has trained {counted(have, flag.removeprefix('max-')[:-1])}. Omit the"
                    f" flag, give --{flag}={have} or more to continue, or choose another --run"
                )

    def has_trained(self) -> bool:
        """Whether a step is recorded or saved, or the record cannot be read.

        A run that failed at its start has none, and does not bind the next one.
        """
        if any(self.saved_steps()):
            return True
        if not self.record_file.exists():
            return False
        try:
            return any(line.step for line in record.read(self.record_file).lines)
        except DataError:
            return True

    def saved_steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder, in ascending order."""
        return checkpoint_steps(path.name for path in self.checkpoints.glob("step-*.npz"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevents a second process on this machine from training the same run.

        A run that is refused before it recorded anything leaves the folder as it was, a new one not at all.
        """
        if sys.platform == "win32":
            raise ConfigError("training needs Linux or macOS; use WSL on Windows")
        new = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.create()
        try:
            file, _ = take(self.lock_file)
        except HeldError as holder:
            raise ConfigError(
                f"{self.path} is being trained by process {holder};"
                " wait for it, or choose another --run"
            ) from holder
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written ({error.strerror}); choose another --run"
            ) from error
        try:
            with file, self._unchanged_if_refused():
                try:
                    yield
                finally:
                    self.lock_file.unlink(missing_ok=True)
        except BaseException:
            with suppress(OSError):  # it is not empty, or another process uses a folder above
                for folder in new:
                    folder.rmdir()
            raise

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """Leaves the folder as it was if the block is refused before it recorded anything.

        What a refused command wrote would refuse the corrected one.
        """
        there = {path for name in _WRITTEN if (path := self.path / name).exists()}
        documents = {path: path.read_bytes() for path in there if path.suffix in {".json", ".yaml"}}
        recorded = self._recorded()
        try:
            yield
        except (CloudganError, ModuleNotFoundError) as error:
            is_refused = getattr(error, "exit_code", 2) == ConfigError.exit_code
            if is_refused and self._recorded() == recorded:
                for path in {self.path / name for name in _WRITTEN} - there:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                for path, content in documents.items():
                    if path.read_bytes() != content:
                        write_atomic(path, content)
            raise

    def _recorded(self) -> dict[Path, int]:
        """Returns the sizes of all records in the folder: of the run, of cells, of trials."""
        return {path: path.stat().st_size for path in self.path.rglob("record.jsonl")}
