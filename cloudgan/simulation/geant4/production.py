"""Showers of Geant4, a file or parts of one store, produced in blocks, each of which is also the checkpoint.

A block is a range of event numbers. Its worker process writes the file beside and renames it, so a block whose
file exists is finished, and the same request resumes with the others. A shower is a function of its number:
neither the blocks nor the processes change it. A part of a store holds fixed numbers: its bytes do not depend on the
workers, of which there may be any number.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloudgan.core.atomic_file import atomic_writer, write_atomic
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, DataError, DiskFullError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.hdf5_writer import array_value, public_layout
from cloudgan.data.hits import write_showers
from cloudgan.data.manifest import Attribute, ColumnInfo, PartInfo, SourceInfo
from cloudgan.data.showers import Cells, Showers, measured_angle
from cloudgan.data.store import write_part
from cloudgan.data.units import DECLARED, KNOWN_UNITS, WRITTEN_UNIT
from cloudgan.schema.simulation import SimulationConfig
from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.engine import PHYSICS, Engine
from cloudgan.simulation.geant4.events import PrimaryRequest, primary
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import Installation, WorkerPool, prepare_geant4

SHAPE = (*CLIC_ECAL.cells, CLIC_ECAL.layers)
_MOST_SHOWERS, _MOST_GEV = 4, 200
"""Of a block, on average: two to three seconds, which a killed process loses."""
_READ_AT_ONCE = 16
"""Blocks made dense at once: 17 MB."""
_IDENTITY = "simulation.json"


def blocks_of(events: range, request: PrimaryRequest) -> list[range]:
    """Returns the blocks of neighbouring events; those of high energies are smaller."""
    size = max(1, min(_MOST_SHOWERS, int(2 * _MOST_GEV / sum(request.energy_gev))))
    return [events[first : first + size] for first in range(0, len(events), size)]


def missing_blocks(folder: Path, blocks: Sequence[range]) -> list[range]:
    """Returns the blocks that `folder` lacks."""
    return [block for block in blocks if not _path(folder, block).exists()]


def begin(folder: Path, identity: Mapping[str, Any], *, discard_other: bool) -> None:
    """Prepares an existing folder for the blocks of one simulation; keeps those that it has.

    The identity is all that determines a shower besides its number. Blocks of another simulation are refused unless
    `discard_other`.
    """
    path = folder / _IDENTITY
    found = parse_json(path.read_bytes(), str(path)) if path.exists() else None
    if found == identity:
        return
    if found is not None and any(folder.glob("*.npz")) and not discard_other:
        names = [name for name in identity if identity[name] != found.get(name)]
        differ = "; ".join(f"{name} ({identity[name]}, {found.get(name)})" for name in names)
        raise ConfigError(
            f"{folder} holds showers of another simulation; requested and found values differ:"
            f" {differ}. Finish it with its own command, use another output, or give --overwrite"
            " to discard them"
        )
    discard(folder)
    write_atomic(path, json.dumps(identity).encode())


def discard(folder: Path, blocks: Sequence[range] | None = None) -> None:
    """Removes blocks, else all of them."""
    paths = folder.glob("*.npz*") if blocks is None else (_path(folder, one) for one in blocks)
    for path in paths:
        path.unlink(missing_ok=True)


def simulate_blocks(
    pool: WorkerPool, folder: Path, blocks: Sequence[range], request: PrimaryRequest, tables: Tables
) -> Iterator[range]:
    """Simulates blocks in processes, and yields each when its file is there, in order of completion."""
    return pool.answers(
        partial(_simulate, _path(folder, block), block, request, tables) for block in blocks
    )


def _simulate(path: Path, block: range, request: PrimaryRequest, tables: Tables) -> range:
    """Runs in a worker process."""
    engine = _engine(request, tables)
    showers = [engine.simulate(primary(request, number)) for number in block]
    with atomic_writer(path) as file:
        np.savez(
            file,
            cell=np.concatenate([one.flat_index for one in showers]).astype(np.uint32),
            energy_gev=np.concatenate([one.energy_gev for one in showers]),
            first=np.cumsum([0, *(len(one.flat_index) for one in showers)]),
        )
    return block


@lru_cache(maxsize=1)
def _engine(request: PrimaryRequest, tables: Tables) -> Engine:
    return Engine(tables, request.cut_mm, particle=request.particle)


def read_showers(
    folder: Path, blocks: Sequence[range], request: PrimaryRequest
) -> Iterator[Showers]:
    """Yields the showers of finished blocks with the energies and angles of their primaries."""
    for first in range(0, len(blocks), _READ_AT_ONCE):
        read = blocks[first : first + _READ_AT_ONCE]
        ecal = np.concatenate([_read(_path(folder, block)).dense() for block in read])
        primaries = [primary(request, number) for block in read for number in block]
        energy = np.array([one.energy_gev for one in primaries], np.float32)
        theta = np.array([one.theta_rad for one in primaries], np.float32)
        yield Showers(ecal, energy, theta, measured_angle(ecal))


def _read(path: Path) -> Cells:
    try:
        with np.load(path) as file:
            return Cells(file["cell"], file["energy_gev"], file["first"], SHAPE)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} is damaged ({error}); delete it, and rerun the command to simulate it again"
        ) from error


def _path(folder: Path, block: range) -> Path:
    return folder / f"{block.start:09d}-{block.stop:09d}.npz"


DETECTOR_NAME = "ECAL barrel of CLIC_o2_v04: 25 layers of tungsten and silicon"
UNFINISHED = ".unfinished"
"""Suffix of the folder beside the output that keeps finished blocks."""


class SimulationResult(NamedTuple):
    """Showers in the file, those resumed from an interrupted run, and the wall time of the others."""

    showers: int
    resumed: int
    seconds: float
    installation: Installation


def produce(
    output: Path,
    events: int,
    request: PrimaryRequest,
    *,
    data: Path | None,
    workers: int | None,
    overwrite: bool,
    attrs: Mapping[str, Any],
    progress: Progress,
) -> SimulationResult:
    """Simulates showers into a file of the public layout, which the caller has locked; resumes an interrupted run.

    `data` are CERN's data files of the user; None: tables written by cloudgan. `overwrite` discards unfinished
    showers of another simulation. `progress` receives the simulated energy, to which the time is proportional.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers={workers}: at least 1 is required")
    blocks = blocks_of(range(events), request)
    folder = output.with_name(output.name + UNFINISHED)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written ({error.strerror})") from error
    try:
        progress.start("preparing Geant4")
        installation = prepare_geant4(folder, data)
        begin(folder, identity(request, installation), discard_other=overwrite)
        missing = missing_blocks(folder, blocks)
        resumed = done = events - sum(map(len, missing))
        if resumed:
            progress.say(f"resuming: {resumed} of {events} showers are finished")
        total = sum(primary(request, number).energy_gev for block in missing for number in block)
        progress.start(f"simulating {events - resumed} showers (geant4)", total, "GeV")
        began = monotonic_seconds()
        with WorkerPool(min(workers or this_machine().cores, len(missing))) as pool:
            for block in simulate_blocks(pool, folder, missing, request, installation.tables):
                done += len(block)
                rate = (done - resumed) / max(monotonic_seconds() - began, 1e-9)
                note = f"{done}/{events} events, {rate:.3g} events/s"
                progress.advance(sum(primary(request, one).energy_gev for one in block), note)
        seconds = monotonic_seconds() - began
        progress.start("writing", events, "showers")
        attributes = dict(attrs) | provenance(request, installation)
        showers = read_showers(folder, blocks, request)
        written = write_showers(output, showers, attrs=attributes, progress=progress)
        shutil.rmtree(folder, ignore_errors=True)
    except (KeyboardInterrupt, DiskFullError) as error:
        kept = events - sum(map(len, missing_blocks(folder, blocks)))
        if not kept:
            raise
        said = f"{kept} of {events} showers are kept in {folder}"
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"stopped; {said}. Rerun the command to resume") from None
        raise DiskFullError(f"{error}; {said}. Rerun the command to resume") from error
    finally:
        if not any(folder.glob("*.npz")):
            shutil.rmtree(folder, ignore_errors=True)
    return SimulationResult(written, resumed, seconds, installation)


def identity(request: PrimaryRequest, installation: Installation) -> dict[str, Any]:
    """Returns all values that determine a shower besides its number."""
    return {
        "engine": "geant4",
        "geant4": installation.geant4,
        "tables_sha256": installation.tables.sha256,
        "physics": PHYSICS,
        "detector_sha256": hashlib.sha256(repr(CLIC_ECAL).encode()).hexdigest(),
    } | request.as_json()


def provenance(request: PrimaryRequest, installation: Installation) -> dict[str, Any]:
    """Returns the attributes of showers: all that determines them, and the detector in words."""
    source = f"Geant4 {installation.geant4} (geant4-pybind {installation.package}), {PHYSICS}"
    return identity(request, installation) | {
        "source": source,
        "geant4_pybind": installation.package,
        "tables": installation.tables.name,
        "detector": DETECTOR_NAME,
    }


LAYOUT = "simulated store"


class SimulatedShard(NamedTuple):
    """A finished shard: its part of the manifest, the source, equal for all shards, and its files by name.

    `core_seconds` are the wall time since the previous shard of this worker, times its processes.
    """

    number: int
    info: PartInfo
    source: SourceInfo
    content: dict[str, bytes]
    core_seconds: float


def simulate_shards(
    simulation: SimulationConfig,
    seed: int,
    numbers: Sequence[int],
    installation: Installation,
    folder: Path,
    *,
    processes: int,
    version: str,
    on_showers: Callable[[int], None],
) -> Iterator[SimulatedShard]:
    """Simulates the shards `numbers`, ascending, in processes, and yields each when its last shower is finished.

    `folder` has finished blocks; those of a killed worker are used. `version` is that of cloudgan, for the attributes;
    `on_showers` is called with the number of showers of each finished block.
    """
    request = PrimaryRequest(
        seed, simulation.energy_gev, simulation.theta_deg, simulation.cut_mm, simulation.particle
    )
    begin(folder, identity(request, installation), discard_other=True)
    blocks = {number: blocks_of(simulation.events(number), request) for number in numbers}
    pending = {number: missing_blocks(folder, blocks[number]) for number in numbers}
    missing = [block for number in numbers for block in pending[number]]
    attributes = provenance(request, installation) | {"cloudgan": version}
    began = monotonic_seconds()

    def finished() -> Iterator[SimulatedShard]:
        nonlocal began
        for number in [number for number in pending if not pending[number]]:
            del pending[number]
            showers = read_showers(folder, blocks[number], request)
            seconds, began = monotonic_seconds() - began, monotonic_seconds()
            shard = _shard(number, showers, request, simulation.showers, attributes)
            yield SimulatedShard(number, *shard, seconds * processes)
            discard(folder, blocks[number])

    yield from finished()
    with WorkerPool(min(processes, len(missing))) as pool:
        for block in simulate_blocks(pool, folder, missing, request, installation.tables):
            on_showers(len(block))
            pending[block.start // simulation.showers_per_shard].remove(block)
            yield from finished()


def _shard(
    number: int,
    showers: Iterator[Showers],
    request: PrimaryRequest,
    total: int,
    attributes: Mapping[str, Any],
) -> tuple[PartInfo, SourceInfo, dict[str, bytes]]:
    blocks, columns = [], tuple[ColumnInfo, ...]()
    for block in map(public_layout, showers):
        columns = tuple(
            ColumnInfo(name=name, dtype=values.dtype.str, shape=values.shape[1:])
            for name, values in sorted(block.columns.items())
        )
        values = {column.name: block.columns[column.name] for column in columns}
        blocks.append((Cells.of(block.ecal), values))
    with tempfile.TemporaryDirectory(prefix="cloudgan-") as name:
        info = write_part(Path(name), number, 0, blocks)
        content = {file.name: Path(name, file.name).read_bytes() for file in info.files}
    per_gev = float(KNOWN_UNITS[WRITTEN_UNIT])
    of_file: dict[str, Attribute] = {
        name: value if isinstance(value, str) else array_value(np.asarray(value))
        for name, value in attributes.items()
    }
    declared = array_value(np.asarray(per_gev))
    source = SourceInfo(
        name=f"Geant4 {request.particle}s, seed {request.seed}",
        layout=LAYOUT,
        bytes=0,
        modified_ns=0,
        records=total,
        shape=SHAPE,
        ecal_dtype="<f4",
        ecal_per_gev=per_gev,
        ecal_decided=f"ECAL is {WRITTEN_UNIT}: the simulation states it.",
        columns=columns,
        attributes={"": of_file, "ECAL": {"unit": WRITTEN_UNIT, DECLARED: declared}},
    )
    return info, source, content
