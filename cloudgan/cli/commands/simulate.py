"""`cloudgan simulate`: showers from a simulation into an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cloudgan.api import showers as api
from cloudgan.cli.options.values import parse_range
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.schema.particle import Particle


def simulate(
    output: str,
    *,
    showers: int = 1000,
    energy: str = "10:100",
    theta: str = "60:120",
    particle: Particle = "electron",
    engine: Literal["gflash", "geant4"] = "gflash",
    seed: int = 0,
    workers: int | None = None,
    cut_mm: float | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Simulates showers in the CLIC ECAL into HDF5 (public 3DGAN layout, 51x51x25 cells).

    The parametric source is for demos, tests and pre-training, not a reference: validate against
    Geant4, which takes about 0.01 s per GeV on all cores. An interrupted Geant4 production keeps its
    showers beside the file; rerun the command to resume.

    Args:
        output: File to write, such as showers.h5 or, for the hits, showers.parquet.
        showers: Number of showers.
        energy: Range of the primary energy in GeV, flat.
        theta: Range of the polar angle in degrees, flat.
        particle: Primary particle; photons need --engine=geant4.
        engine: gflash, the parametric source (Grindhammer and Peters, hep-ex/0001020), or geant4.
        seed: The same seed gives the same showers.
        workers: Processes of Geant4. Default: one per core.
        cut_mm: Range cut of Geant4 in mm. Default: 0.7.
        overwrite: Replace an existing file, and discard unfinished showers of another request.
        json: Print the result as JSON.
    """
    ranges = parse_range("energy", energy), parse_range("theta", theta)
    with progress_bars(as_json=json) as progress:
        file = api.simulate(
            output,
            showers=showers,
            energy_gev=ranges[0],
            theta_deg=ranges[1],
            particle=particle,
            engine=engine,
            seed=seed,
            workers=workers,
            cut_mm=cut_mm,
            overwrite=overwrite,
            progress=progress,
        )
    size = {"bytes": Path(file.path).stat().st_size}
    print_result({"file": file.path, "showers": file.showers} | file.facts | size, as_json=json)
