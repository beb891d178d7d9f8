"""Geant4 showers as shards of one data set, which any number of workers simulate in parts.

A shower is a function of the request and its number, and a shard holds fixed numbers: its bytes do not
depend on the workers. No TensorFlow: the checksum of a record takes half a millisecond.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudgan.core.clock import monotonic_seconds
from cloudgan.data.record_checksums import frame_record
from cloudgan.data.shards.manifest import ArrayValue, ColumnInfo, ShardInfo, SourceInfo
from cloudgan.data.shards.shower_record import encode_block
from cloudgan.data.sources.hdf5_writer import public_layout
from cloudgan.data.sources.raw_showers import DECLARED, KNOWN_UNITS, WRITTEN_UNIT
from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.production import provenance
from cloudgan.simulation.geant4.unfinished import BLOCK, dense_showers
from cloudgan.simulation.geant4.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cloudgan.data.shards.manifest import Attribute
    from cloudgan.schema.simulation import SimulationConfig
    from cloudgan.simulation.geant4.events import Event
    from cloudgan.simulation.geant4.workers import Installation

LAYOUT = "simulated shards"


class SimulatedShard(NamedTuple):
    """A finished shard.

    Attributes:
        number: Number in the data set.
        info: Its row of the manifest.
        source: The data set, equal for all shards.
        content: Bytes of the file.
        core_seconds: Wall time since the previous shard of this worker, times its processes.
    """

    number: int
    info: ShardInfo
    source: SourceInfo
    content: bytes
    core_seconds: float


def simulate_shards(
    simulation: SimulationConfig,
    seed: int,
    numbers: Sequence[int],
    installation: Installation,
    *,
    processes: int,
    version: str,
    on_event: Callable[[], None],
) -> Iterator[SimulatedShard]:
    """Simulates the shards `numbers` in processes, and yields each when its last shower is finished.

    Args:
        simulation: The data set.
        seed: Seed of the run.
        numbers: Shards to simulate, ascending.
        installation: Geant4 and its tables.
        processes: Number of processes.
        version: Of cloudgan, for the attributes.
        on_event: Called after each shower.

    Raises:
        CloudganError: A process died; the message ends with its last lines.
    """
    primaries = PrimaryRequest(
        seed, simulation.energy_gev, simulation.theta_deg, simulation.cut_mm, simulation.particle
    )
    pending: dict[int, list[Event]] = {number: [] for number in numbers}
    events = (event for number in numbers for event in simulation.events(number))
    began = monotonic_seconds()
    with WorkerPool(primaries, installation.tables, processes) as pool:
        for event in pool.events(events):
            on_event()
            number = event.number // simulation.showers_per_shard
            pending[number].append(event)
            if len(pending[number]) < len(simulation.events(number)):
                continue
            found = sorted(pending.pop(number), key=lambda one: one.number)
            seconds, began = monotonic_seconds() - began, monotonic_seconds()
            facts = provenance(primaries, installation) | {"cloudgan": version}
            shard = _shard(number, found, primaries, simulation.showers, facts)
            yield shard._replace(core_seconds=seconds * processes)


def _shard(
    number: int,
    events: list[Event],
    primaries: PrimaryRequest,
    showers: int,
    facts: Mapping[str, Any],
) -> SimulatedShard:
    shape = (*CLIC_ECAL.cells, CLIC_ECAL.layers)
    records: list[bytes] = []
    columns: tuple[ColumnInfo, ...] = ()
    for first in range(0, len(events), BLOCK):
        block = public_layout(dense_showers(events[first : first + BLOCK], primaries, shape))
        columns = tuple(
            ColumnInfo(name=name, dtype=values.dtype.str, shape=values.shape[1:])
            for name, values in sorted(block.columns.items())
        )
        records += map(frame_record, encode_block(block, columns))
    content = b"".join(records)
    info = ShardInfo(
        name=f"showers-{number:05d}.tfrecord",
        records=len(records),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        source=0,
    )
    source = _source(primaries, showers, facts, shape, columns)
    return SimulatedShard(number, info, source, content, 0.0)


def _source(
    primaries: PrimaryRequest,
    showers: int,
    facts: Mapping[str, Any],
    shape: tuple[int, int, int],
    columns: tuple[ColumnInfo, ...],
) -> SourceInfo:
    per_gev = float(KNOWN_UNITS[WRITTEN_UNIT])
    attributes: dict[str, Attribute] = {
        name: value if isinstance(value, str) else ArrayValue.of(np.asarray(value))
        for name, value in facts.items()
    }
    unit: dict[str, Attribute] = {
        "unit": WRITTEN_UNIT,
        DECLARED: ArrayValue.of(np.asarray(per_gev)),
    }
    return SourceInfo(
        name=f"Geant4 {primaries.particle}s, seed {primaries.seed}",
        layout=LAYOUT,
        bytes=0,
        modified_ns=0,
        records=showers,
        shape=shape,
        ecal_dtype="<f4",
        ecal_per_gev=per_gev,
        ecal_decided=f"ECAL is {WRITTEN_UNIT}: the simulation states it.",
        columns=columns,
        attributes={"": attributes, "ECAL": unit},
    )
