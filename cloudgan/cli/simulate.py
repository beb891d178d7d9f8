"""`cloudgan simulate`: showers from a simulation into an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.ranges import parse_range
from cloudgan.core.errors import ConfigError


def simulate(
    out: str,
    *,
    count: int = 1000,
    energy_gev: str = "10:100",
    theta_deg: str = "60:120",
    engine: Literal["gflash"] = "gflash",
    seed: int = 0,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Simulates electron showers in the CLIC ECAL into HDF5 (public 3DGAN layout, 51x51x25 cells).

    The parametric source serves demos, tests and pre-training. It is no reference: validate against
    Geant4.

    Args:
        out: File to write, such as showers.h5.
        count: How many showers.
        energy_gev: Range of the primary energy, flat.
        theta_deg: Range of the polar angle, flat.
        engine: gflash, the parametric source (Grindhammer and Peters, hep-ex/0001020).
        seed: The same seed gives the same showers.
        overwrite: Replace the file where it exists.
        json: Print the result as JSON.
    """
    path = Path(out)
    energies = parse_range("energy_gev", energy_gev)
    thetas = parse_range("theta_deg", theta_deg)
    if count < 1:
        raise ConfigError(f"--count={count}: at least one shower")
    refuse_existing(path, overwrite=overwrite)
    with shown_progress(as_json=json) as progress:
        from cloudgan.data.hdf5_writer import write_hdf5
        from cloudgan.simulation.gflash import simulate as simulated

        blocks = simulated(count, seed=seed, energy_gev=energies, theta_deg=thetas)
        progress.start(f"simulating ({engine})", count, "showers")
        attrs = {"source": f"cloudgan {engine} (parametric)", "seed": seed}
        written = write_hdf5(path, blocks, attrs=attrs, progress=progress)
    show({"file": str(path), "showers": written, "bytes": path.stat().st_size}, as_json=json)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Keeps a file that is there.

    Raises:
        ConfigError: There is one and nobody said --overwrite, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; name another file, or say --overwrite")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist; make it first")
