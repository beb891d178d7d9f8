"""Produces a file of Geant4 showers, resuming an interrupted run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, DiskFullError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.hits import write_showers
from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.blocks import (
    begin,
    blocks_of,
    missing_blocks,
    read_showers,
    simulate_blocks,
)
from cloudgan.simulation.geant4.engine import PHYSICS
from cloudgan.simulation.geant4.events import PrimaryRequest, primary
from cloudgan.simulation.geant4.workers import Installation, WorkerPool, prepare_geant4

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
