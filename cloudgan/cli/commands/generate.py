"""`cloudgan generate`: showers from a trained generator."""

from __future__ import annotations

from cloudgan.api import showers as api
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.showers import GenerateOptions


@command
def generate(options: GenerateOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    with progress_bars(as_json=as_json) as progress:
        file = api.generate(
            options.run,
            options.output,
            showers=options.showers,
            energy_gev=options.energy,
            theta_deg=options.theta,
            extrapolate=options.extrapolate,
            step=options.step,
            cell=options.cell,
            seed=options.seed,
            overwrite=options.overwrite,
            progress=progress,
        )
    print_result({"file": file.path, file.content: file.showers} | file.facts, as_json=as_json)
