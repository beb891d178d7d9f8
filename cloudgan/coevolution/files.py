"""The files of a grid's run: its configuration, and the state and record of each cell.

A cell saves its state after some iterations and keeps the two newest: when a process dies while others
have saved, all cells continue from the newest iteration that every cell has. States are NumPy archives
without pickles, with one JSON text. On nodes with disks of their own each cell copies its files to the
store of the run, from which any node continues it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.cell import Cell, CellState, Population
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.record import is_pictured
from cloudgan.coevolution.task import KINDS, Kind
from cloudgan.core.arrays import as_archive, read_arrays
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import parse_json, read_json, write_json
from cloudgan.core.errors import ConfigError, DataError, TryAgain
from cloudgan.core.file_lock import append_line
from cloudgan.ranks.flat import FlatLayout
from cloudgan.schema import coevolution
from cloudgan.schema.coevolution import (
    CELLS,
    CellLine,
    CoevolutionConfig,
    MixtureQuality,
    common_iteration,
    read_lines,
    saved_iterations,
    state_name,
)
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.store import Store, StoreError, retry_on_store_error

_KEPT = 2
_PATIENCE_SECONDS, _PAUSE_SECONDS = 600.0, 2.0
_META = "meta.json"
MOST_IMAGES = 16
_PICTURES = re.compile(r"samples-(\d{9})\.npz")
_IMAGES = "images"
_WHITE = 255


class GridFolder:
    """Paths of a grid's run, and what is read from and written to them."""

    def __init__(self, path: Path, grid: Grid | None = None, store: Store | None = None) -> None:
        """`grid` is needed where a cell is read.

        Ranks with disks of their own have a store of the run's files.
        """
        self.run = RunFolder(path)
        self.path = self.run.path
        self.config_file = self.path / coevolution.FILE_NAME
        self.result_file = self.path / "mixture.npz"
        self.quality_file = self.path / "mixture_quality.json"
        self.page_file = self.path / "evolution.html"
        self.status_file = self.path / coevolution.STATUS_FILE
        self._grid, self.store = grid, store

    @property
    def grid(self) -> Grid:
        """The grid of the run."""
        assert self._grid  # noqa: S101 -- given wherever cells are read
        return self._grid

    def read_config(self) -> CoevolutionConfig | None:
        """Returns the configuration; None: the folder holds no grid."""
        if not self.config_file.exists():
            return None
        return read_json(self.config_file, CoevolutionConfig)

    def write_config(self, config: CoevolutionConfig) -> None:
        """Writes the configuration."""
        there = self.read_config()
        if there is not None and (self.store or self.has_begun()):
            # More iterations continue a run.
            before, now = there.mathematics(), config.mathematics()
            if changed := [key for key in before if before[key] != now[key]]:
                raise ConfigError(
                    f"{self.path} holds a grid with other values of {', '.join(changed)}; repeat its"
                    " values to continue it, or choose another --run"
                )
        self.run.create()
        write_json(self.config_file, config)

    def has_begun(self) -> bool:
        """Whether a cell has a state or a record; a run that failed at its start is not one to protect."""
        return any(self.path.glob(f"{CELLS}/*/*"))

    def read_quality(self) -> MixtureQuality | None:
        """Returns the quality of the mixture; None: it was not measured."""
        if not self.quality_file.exists():
            return None
        return read_json(self.quality_file, MixtureQuality)

    def cell(self, number: int) -> CellFiles:
        """Returns the files of a cell."""
        return CellFiles(self.path / CELLS / self.grid.name(number), self.store)

    def fetch_cells(self) -> None:
        """Downloads the files of all cells, with the states of the newest iteration that all have."""
        iteration = self.newest_common()
        for number in range(self.grid.cells):
            self.cell(number).fetch(iteration)

    def push_results(self) -> None:
        """Copies configuration, result, its quality and the page to the store of the run, if it has one."""
        if self.store is None:
            return
        with _store_failure():
            for file in (self.config_file, self.quality_file, self.page_file, self.result_file):
                self.store.put(file.name, file)

    def newest_common(self) -> int:
        """Returns the newest iteration that all cells have saved; 0 if there is none."""
        return common_iteration(self.cell(number).points() for number in range(self.grid.cells))


class CellFiles:
    """State and record of one cell; with a store only the copies there count after a restart."""

    def __init__(self, path: Path, store: Store | None = None) -> None:
        """Names the files in a folder, and their copies below ``cells/NAME/`` of the store."""
        self.path, self._store = path, store
        self.record_file = path / "record.jsonl"
        self._prefix = f"{CELLS}/{path.name}/"

    def saved(self) -> list[int]:
        """Returns the iterations of saved states, in ascending order."""
        if not self.path.is_dir():
            return []
        return saved_iterations(file.name for file in self.path.iterdir())

    def points(self) -> list[int]:
        """Returns the iterations after which the cell can continue, in ascending order."""
        if self._store is None:
            return self.saved()
        with _store_failure():
            return saved_iterations(self._copies(self._store))

    def fetch(self, iteration: int) -> None:
        """Replaces the files by their copies, if there are some; of the states only by one of the `points`."""
        if self._store is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        with _store_failure():
            for name in self._copies(self._store):
                if not saved_iterations([name]) or name == state_name(iteration):
                    self._store.get(self._prefix + name, self.path / name)

    def save(self, state: CellState) -> None:
        """Writes the state of an iteration, and deletes all but the two newest.

        Copies what is new: the state after all before it. While the store fails the cell waits: without a copy
        the other cells would delete the last common state.

        Raises:
            TryAgain: The store failed for ten minutes.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {
            f"{number:03d}": one for number, one in enumerate(state.population.states())
        }
        meta = {
            "iteration": state.iteration,
            "members": state.mixture.members,
            "weights": state.mixture.weights,
            "score": state.score if np.isfinite(state.score) else None,
            **state.population.headers(),
        }
        arrays[_META] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        write_atomic(self._state_file(state.iteration), as_archive(arrays))
        for iteration in self.saved()[:-_KEPT]:
            self._state_file(iteration).unlink(missing_ok=True)
        if self._store:
            copy = partial(self._copy, self._store, state_name(state.iteration))
            retry_on_store_error(
                copy, patience_seconds=_PATIENCE_SECONDS, pause_seconds=_PAUSE_SECONDS, say=_say
            )()

    def read(self, iteration: int, layouts: Mapping[Kind, FlatLayout]) -> CellState:
        """Reads the state of an iteration."""
        path = self._state_file(iteration)
        arrays = read_arrays(path)
        try:
            meta = parse_json(arrays.pop(_META).tobytes(), str(path))
            states = [arrays[name] for name in sorted(arrays)]
            population = Population.from_headers(meta, states)
            mixture = Mixture(tuple(map(int, meta["members"])), tuple(map(float, meta["weights"])))
            score = float("inf") if meta["score"] is None else float(meta["score"])
            state = CellState(int(meta["iteration"]), population, mixture, score)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not the state of a cell ({error})") from error
        for kind in KINDS:
            for one in population.of(kind):
                expected = layouts[kind].size
                if one.state.dtype != np.float32 or one.state.shape != (expected,):
                    raise ConfigError(
                        f"{path}: a {kind} has {one.state.size} values, and the networks of this run"
                        f" have {expected}; choose another --run"
                    )
        return state

    def set_aside(self, iteration: int, reason: str) -> None:
        """Renames a damaged state, here and in the store: the cell continues from one before it."""
        path = self._state_file(iteration)
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        _say(f"{reason}; it is now {kept.name}, and the cells continue from a state before it")
        if self._store:
            with _store_failure():
                self._store.put(self._prefix + kept.name, kept)
                self._store.delete(self._prefix + path.name)

    def lines(self) -> tuple[CellLine, ...]:
        """Returns the record of the cell."""
        return read_lines(self.record_file)

    def append(self, line: CellLine) -> None:
        """Appends a line to the record."""
        self.path.mkdir(parents=True, exist_ok=True)
        append_line(self.record_file, line.model_dump_json())

    def rewind(self, iterations: int) -> None:
        """Deletes lines and states after an iteration, before the cell continues from there.

        A later state would count as one of the two newest, in place of one that all cells have.
        """
        for iteration in self.saved():
            if iteration > iterations:
                self._state_file(iteration).unlink(missing_ok=True)
        if self.record_file.exists():
            kept = [line for line in self.lines() if line.iteration <= iterations]
            text = "".join(line.model_dump_json() + "\n" for line in kept)
            write_atomic(self.record_file, text.encode())

    def _state_file(self, iteration: int) -> Path:
        return self.path / state_name(iteration)

    def _copy(self, store: Store, newest: str) -> None:
        there = set(self._copies(store))
        here = {file.name for file in self.path.iterdir()}
        new = {name for name in here - there if not saved_iterations([name])}
        for name in (*sorted(new | {self.record_file.name}), newest):
            store.put(self._prefix + name, self.path / name)
        for name in there - here:
            store.delete(self._prefix + name)

    def _copies(self, store: Store) -> list[str]:
        return [name.removeprefix(self._prefix) for name in store.list(self._prefix)]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


@contextmanager
def _store_failure() -> Iterator[None]:
    """Translates a failure of the store: all ranks start again from what it has."""
    try:
        yield
    except StoreError as error:
        raise TryAgain(f"the files of the cells are not in the store: {error}") from error


def record_iteration(
    files: CellFiles, cell: Cell, line: CellLine, config: CoevolutionConfig
) -> None:
    """Appends the line of an iteration; saves pictures and state where they are due."""
    files.append(line)
    keep_pictures(files, cell, config.iterations)
    if line.iteration % config.save_every == 0 or line.iteration == config.iterations:
        files.save(cell.state)


def keep_pictures(files: CellFiles, cell: Cell, last: int) -> None:
    """Writes the pictures of a cell's newest iteration if they are kept, and deletes superfluous ones.

    Superfluous is the last iteration of a run that was continued since.
    """
    if cell.pictures is None or not is_pictured(cell.state.iteration, last):
        return
    images = np.clip(cell.pictures[:MOST_IMAGES], 0.0, 1.0)
    content = as_archive({_IMAGES: np.round(_WHITE * images).astype(np.uint8)})
    files.path.mkdir(parents=True, exist_ok=True)
    write_atomic(_picture_file(files, cell.state.iteration), content)
    for iteration in pictured(files):
        if not is_pictured(iteration, last):
            _picture_file(files, iteration).unlink(missing_ok=True)


def pictured(files: CellFiles) -> list[int]:
    """Returns the iterations whose pictures are kept, in ascending order."""
    if not files.path.is_dir():
        return []
    found = (_PICTURES.fullmatch(file.name) for file in files.path.iterdir())
    return sorted(int(name[1]) for name in found if name)


def read_pictures(files: CellFiles, iteration: int) -> NDArray[np.uint8]:
    """Reads images (N, height, width) from 0 (black) to 255."""
    path = _picture_file(files, iteration)
    images = read_arrays(path).get(_IMAGES)
    if images is None or images.ndim != 3 or images.dtype != np.uint8 or not images.size:  # noqa: PLR2004
        raise DataError(f"{path}: damaged (no images)")
    return images


def _picture_file(files: CellFiles, iteration: int) -> Path:
    return files.path / f"samples-{iteration:09d}.npz"
