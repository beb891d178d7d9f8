"""`cloudgan simulate`: showers from a simulation into an HDF5 file."""

from __future__ import annotations

from pathlib import Path

from cloudgan.api import showers as api
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.showers import SimulateOptions


@command
def simulate(options: SimulateOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    ranges = options.energy, options.theta
    with progress_bars(as_json=as_json) as progress:
        file = api.simulate(
            options.output,
            showers=options.showers,
            energy_gev=ranges[0],
            theta_deg=ranges[1],
            particle=options.particle,
            engine=options.engine,
            seed=options.seed,
            workers=options.workers,
            cut_mm=options.cut_mm,
            overwrite=options.overwrite,
            progress=progress,
        )
    size = {"bytes": Path(file.path).stat().st_size}
    print_result({"file": file.path, "showers": file.showers} | file.facts | size, as_json=as_json)
