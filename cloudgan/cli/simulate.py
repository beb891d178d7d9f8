"""`cloudgan simulate`: showers from a simulation into an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cloudgan import __version__
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.ranges import parse_range
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.provenance import git_commit

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.simulation.geant4.production import Request

    Range = tuple[float, float]


def simulate(
    output: str,
    *,
    events: int = 1000,
    energy: str = "10:100",
    theta: str = "60:120",
    engine: Literal["gflash", "geant4"] = "gflash",
    seed: int = 0,
    workers: int | None = None,
    cut_mm: float | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Simulates electron showers in the CLIC ECAL into HDF5 (public 3DGAN layout, 51x51x25 cells).

    The parametric source serves demos, tests and pre-training. It is no reference: validate against
    Geant4, which takes about 0.01 s for each GeV, on all cores. What Geant4 has simulated when it is
    stopped is kept beside the file, and the same command goes on with it.

    Args:
        output: File to write, such as showers.h5.
        events: How many showers.
        energy: Range of the primary energy in GeV, flat.
        theta: Range of the polar angle in degrees, flat.
        engine: gflash, the parametric source (Grindhammer and Peters, hep-ex/0001020), or geant4.
        seed: The same seed gives the same showers.
        workers: Processes of Geant4. Default: one for each core.
        cut_mm: Range cut of Geant4. Default: 0.7.
        overwrite: Replace the file where it exists, and drop another's unfinished showers.
        json: Print the result as JSON.
    """
    path = Path(output)
    ranges = parse_range("energy", energy), parse_range("theta", theta)
    if events < 1:
        raise ConfigError(f"--events={events}: at least one shower")
    refuse_existing(path, overwrite=overwrite)
    with shown_progress(as_json=json) as progress:
        if engine == "geant4":
            request = _geant4_request(path, events, ranges, seed, cut_mm)
            result = _geant4(request, workers, overwrite=overwrite, progress=progress)
        else:
            _refuse_of_geant4(workers, cut_mm)
            result = _parametric(path, events, ranges, seed, progress)
    show({"file": str(path)} | result | {"bytes": path.stat().st_size}, as_json=json)


def _parametric(
    path: Path, events: int, ranges: tuple[Range, Range], seed: int, progress: Progress
) -> dict[str, Any]:
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate as simulated

    blocks = simulated(events, seed=seed, energy_gev=ranges[0], theta_deg=ranges[1])
    progress.start("simulating (gflash)", events, "showers")
    attrs = {"source": "cloudgan gflash (parametric)", "seed": seed} | program_attributes()
    return {"showers": write_hdf5(path, blocks, attrs=attrs, progress=progress)}


def _geant4_request(
    path: Path, events: int, ranges: tuple[Range, Range], seed: int, cut_mm: float | None
) -> Request:
    from cloudgan.simulation.geant4.primaries import DEFAULT_CUT_MM, Asked
    from cloudgan.simulation.geant4.production import Request

    asked = Asked(seed, *ranges, DEFAULT_CUT_MM if cut_mm is None else cut_mm)
    return Request(path, events, asked, settings.geant4_data())


def _geant4(
    request: Request, workers: int | None, *, overwrite: bool, progress: Progress
) -> dict[str, Any]:
    from cloudgan.simulation.geant4.production import produce

    made = produce(
        request,
        workers=workers,
        overwrite=overwrite,
        attrs=program_attributes(),
        progress=progress,
    )
    return {
        "showers": made.showers,
        "of_them_found": made.found,
        "seconds": round(made.seconds, 1),
        "geant4": made.installation.geant4,
        "tables": made.installation.tables.name,
    }


def _refuse_of_geant4(workers: int | None, cut_mm: float | None) -> None:
    for name, value in (("workers", workers), ("cut_mm", cut_mm)):
        if value is not None:
            raise ConfigError(f"--{name} belongs to Geant4: add --engine=geant4, or leave it out")


def program_attributes() -> dict[str, str]:
    """Returns which program writes a file: its version, and its commit where it has one."""
    commit = git_commit()
    return {"cloudgan": __version__} | ({"git_commit": commit} if commit else {})


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Keeps a file that is there.

    Raises:
        ConfigError: There is one and nobody said --overwrite, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; name another file, or say --overwrite")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist; make it first")
