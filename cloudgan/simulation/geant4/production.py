"""Produces a file of Geant4 showers, resuming an interrupted run."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.data.sources.parquet_writer import write_showers
from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.engine import PHYSICS
from cloudgan.simulation.geant4.events import primary
from cloudgan.simulation.geant4.unfinished import PartialOutput
from cloudgan.simulation.geant4.workers import Installation, WorkerPool, prepare_geant4

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.simulation.geant4.events import PrimaryRequest

DETECTOR_NAME = "ECAL barrel of CLIC_o2_v04: 25 layers of tungsten and silicon"


class SimulationRequest(NamedTuple):
    """A file to simulate.

    Attributes:
        output: Path of the file.
        events: Number of showers.
        primaries: Primaries.
        data: CERN data files of the user; None: tables written by cloudgan.
    """

    output: Path
    events: int
    primaries: PrimaryRequest
    data: Path | None


class SimulationResult(NamedTuple):
    """Result of a simulation.

    Attributes:
        showers: Showers in the file.
        resumed: Showers resumed from an earlier, interrupted run.
        seconds: Wall time of the others.
        installation: Geant4 and its tables.
    """

    showers: int
    resumed: int
    seconds: float
    installation: Installation


def produce(
    request: SimulationRequest,
    *,
    workers: int | None,
    overwrite: bool,
    attrs: Mapping[str, Any],
    progress: Progress,
) -> SimulationResult:
    """Simulates showers into an HDF5 file in the public layout; resumes an interrupted run.

    Args:
        request: File to simulate.
        workers: Number of processes. None: one per core.
        overwrite: Discard unfinished showers of another simulation.
        attrs: Additional attributes of the file.
        progress: Receives the simulated energy, to which the time is proportional.

    Raises:
        ConfigError: Geant4 is unavailable, or the unfinished showers belong to another simulation.
        CloudganError: A process died, or the disk is full; finished showers are kept.
        Interrupted: Ctrl-C; finished showers are kept.
    """
    primaries, events = request.primaries, request.events
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers={workers}: at least 1 is required")
    with PartialOutput(request.output) as unfinished:
        progress.start("preparing Geant4")
        installation = prepare_geant4(unfinished.folder, request.data)
        unfinished.begin(_identity(primaries, installation), events, discard_other=overwrite)
        resumed = unfinished.count
        began = monotonic_seconds()
        if resumed < events:
            most = min(workers or this_machine().cores, events - resumed)
            pool = WorkerPool(primaries, installation.tables, most)
            _simulate(pool, unfinished, request, progress)
        seconds = monotonic_seconds() - began
        progress.start("writing", events, "showers")
        blocks = unfinished.showers(primaries, (*CLIC_ECAL.cells, CLIC_ECAL.layers))
        attributes = dict(attrs) | provenance(primaries, installation)
        written = write_showers(request.output, blocks, attrs=attributes, progress=progress)
        unfinished.remove()
    return SimulationResult(written, resumed, seconds, installation)


def _simulate(
    pool: WorkerPool, unfinished: PartialOutput, request: SimulationRequest, progress: Progress
) -> None:
    resumed, events, primaries = unfinished.count, request.events, request.primaries
    if resumed:
        progress.say(f"resuming: {resumed} of {events} showers are finished")
    total = sum(primary(primaries, number).energy_gev for number in unfinished.missing())
    progress.start(f"simulating {events - resumed} showers (geant4)", total, "GeV")
    began, done = monotonic_seconds(), 0
    try:
        with pool:
            for event in pool.events(unfinished.missing()):
                unfinished.keep(event)
                done += 1
                rate = done / max(monotonic_seconds() - began, 1e-9)
                note = f"{resumed + done}/{events} events, {rate:.3g} events/s"
                progress.advance(primary(primaries, event.number).energy_gev, note)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; {unfinished.count} of {events} showers are kept in {unfinished.folder}."
            " Rerun the command to resume"
        ) from None


def _identity(primaries: PrimaryRequest, installation: Installation) -> dict[str, Any]:
    """All values that determine a shower besides its number."""
    return {
        "engine": "geant4",
        "geant4": installation.geant4,
        "tables_sha256": installation.tables.sha256,
        "physics": PHYSICS,
        "detector_sha256": hashlib.sha256(repr(CLIC_ECAL).encode()).hexdigest(),
    } | primaries.as_json()


def provenance(primaries: PrimaryRequest, installation: Installation) -> dict[str, Any]:
    """Returns the attributes of showers: all that determines them, and the detector in words."""
    source = f"Geant4 {installation.geant4} (geant4-pybind {installation.package}), {PHYSICS}"
    return _identity(primaries, installation) | {
        "source": source,
        "geant4_pybind": installation.package,
        "tables": installation.tables.name,
        "detector": DETECTOR_NAME,
    }
