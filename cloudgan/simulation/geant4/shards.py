"""Geant4 showers as parts of one store, which any number of workers simulate.

A shower is a function of the request and its number, and a part holds fixed numbers: its bytes do not
depend on the workers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloudgan.core.clock import monotonic_seconds
from cloudgan.data.hdf5_writer import array_value, public_layout
from cloudgan.data.manifest import Attribute, ColumnInfo, PartInfo, SourceInfo
from cloudgan.data.showers import Cells, Showers
from cloudgan.data.store import write_part
from cloudgan.data.units import DECLARED, KNOWN_UNITS, WRITTEN_UNIT
from cloudgan.schema.simulation import SimulationConfig
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.production import (
    SHAPE,
    begin,
    blocks_of,
    discard,
    identity,
    missing_blocks,
    provenance,
    read_showers,
    simulate_blocks,
)
from cloudgan.simulation.geant4.workers import Installation, WorkerPool

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
