"""A file of Geant4's showers, from the question to the last attribute."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.engine import PHYSICS
from cloudgan.simulation.geant4.farm import Farm, Installation, prepare
from cloudgan.simulation.geant4.primaries import primary
from cloudgan.simulation.geant4.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.simulation.geant4.primaries import Asked

DETECTOR_NAME = "ECAL barrel of CLIC_o2_v04: 25 layers of tungsten and silicon"


class Request(NamedTuple):
    """A file that is wanted.

    Attributes:
        output: The file.
        events: How many showers.
        asked: Which.
        data: The user's own data files of CERN; None: ours.
    """

    output: Path
    events: int
    asked: Asked
    data: Path | None


class Produced(NamedTuple):
    """What was made.

    Attributes:
        showers: In the file.
        found: Of them, those that an earlier, unfinished run had left.
        seconds: That the others took, wall time.
        installation: Geant4 and its tables.
    """

    showers: int
    found: int
    seconds: float
    installation: Installation


def produce(
    request: Request,
    *,
    workers: int | None,
    overwrite: bool,
    attrs: Mapping[str, Any],
    progress: Progress,
) -> Produced:
    """Simulates showers into an HDF5 file in the public layout; goes on where it was stopped.

    Args:
        request: What is wanted.
        workers: Processes; None: one for each core.
        overwrite: Whether unfinished showers of another simulation may go.
        attrs: Further attributes of the file.
        progress: Told of the energy that was simulated: time goes with it.

    Raises:
        ConfigError: Geant4 cannot be used here, or unfinished showers are of another simulation.
        CloudganError: A process died, or the disk is full; what is finished is kept.
        Interrupted: Ctrl-C; the same.
    """
    asked, events = request.asked, request.events
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers={workers}: at least one process")
    with Unfinished(request.output) as unfinished:
        progress.start("preparing Geant4")
        installation = prepare(unfinished.folder, request.data)
        unfinished.begin(_identity(asked, installation), events, forget=overwrite)
        found = unfinished.count
        began = monotonic_seconds()
        if found < events:
            most = min(workers or this_machine().cores, events - found)
            farm = Farm(asked, installation.tables, most)
            _simulate(farm, unfinished, request, progress)
        seconds = monotonic_seconds() - began
        progress.start("writing", events, "showers")
        blocks = unfinished.showers(asked, (*CLIC_ECAL.cells, CLIC_ECAL.layers))
        attributes = dict(attrs) | _provenance(asked, installation)
        written = write_hdf5(request.output, blocks, attrs=attributes, progress=progress)
        unfinished.remove()
    return Produced(written, found, seconds, installation)


def _simulate(farm: Farm, unfinished: Unfinished, request: Request, progress: Progress) -> None:
    found, events, asked = unfinished.count, request.events, request.asked
    if found:
        progress.say(f"{found} of {events} showers are there already: going on with the others")
    total = sum(primary(asked, number).energy_gev for number in unfinished.missing())
    progress.start(f"simulating {events - found} showers (geant4)", total, "GeV")
    began, done = monotonic_seconds(), 0
    try:
        with farm:
            for event in farm.events(unfinished.missing()):
                unfinished.keep(event)
                done += 1
                rate = done / max(monotonic_seconds() - began, 1e-9)
                note = f"{found + done}/{events} events, {rate:.3g} events/s"
                progress.advance(primary(asked, event.number).energy_gev, note)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; {unfinished.count} of {events} showers are kept in {unfinished.folder}."
            " The same command goes on with them"
        ) from None


def _identity(asked: Asked, installation: Installation) -> dict[str, Any]:
    """All that decides a shower beside its number, as JSON has it."""
    return {
        "engine": "geant4",
        "geant4": installation.geant4,
        "tables_sha256": installation.tables.sha256,
        "physics": PHYSICS,
        "detector_sha256": hashlib.sha256(repr(CLIC_ECAL).encode()).hexdigest(),
    } | asked.as_json()


def _provenance(asked: Asked, installation: Installation) -> dict[str, Any]:
    source = f"Geant4 {installation.geant4} (geant4-pybind {installation.package}), {PHYSICS}"
    return _identity(asked, installation) | {
        "source": source,
        "geant4_pybind": installation.package,
        "tables": installation.tables.name,
        "detector": DETECTOR_NAME,
    }
