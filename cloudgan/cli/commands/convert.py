"""`cloudgan convert`: showers from one layout to another."""

from __future__ import annotations

from cloudgan.api import showers as api
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.schema.options.showers import ConvertOptions


@command
def convert(options: ConvertOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if options.verify == bool(options.target):
        valid = "convert --verify SOURCE, or convert SOURCE TARGET"
        given = f"--verify with the target {options.target}" if options.verify else "no target"
        raise ConfigError(f"{given} was given; valid: cloudgan {valid}")
    with progress_bars(as_json=as_json) as progress:
        if options.verify:
            checked = api.verify_showers(options.source, unit=options.unit, progress=progress)
            result = {"verified": checked.path, "showers": checked.showers} | checked.facts
            print_result(result, as_json=as_json)
            return
        file = api.convert(
            options.source,
            options.target,
            unit=options.unit,
            to=options.to,
            records_per_shard=options.records_per_shard,
            overwrite=options.overwrite,
            progress=progress,
        )
    print_result({"written": file.path, "showers": file.showers} | file.facts, as_json=as_json)
