"""`cloudgan demo`: simulation, training, validation and cost on this machine."""

from __future__ import annotations

from cloudgan.api import demo as api
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.cli.views.verdict import print_verdict
from cloudgan.core.command import command
from cloudgan.schema.options.showers import DemoOptions


@command
def demo(options: DemoOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    with progress_bars(as_json=as_json) as progress:
        result = api.demo(
            data=options.data,
            unit=options.unit,
            run=options.run,
            showers=options.showers,
            max_steps=options.max_steps,
            max_seconds=options.max_seconds,
            seed=options.seed,
            progress=progress,
        )
    if as_json:
        print_json(result.as_json())
        return
    print(result.ending())
    print_verdict(result.validation.assessment, result.validation.verdict)
    print(result.cost.view().line)
    print(f"{result.program_seconds:.0f} s in all; open {result.report}")
