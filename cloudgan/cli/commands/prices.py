"""`cloudgan prices`: shows and refreshes the price catalogue."""

from __future__ import annotations

from cloudgan.api import prices as api
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress
from cloudgan.reports.result import Result
from cloudgan.schema.options.money import PricesOptions


@command
def prices(options: PricesOptions, *, progress: Progress) -> Result:
    """Returns the prices, or what a refresh changed."""
    if options.action == "refresh":
        path = local_path(options.output, source="--output") if options.output else None
        return api.refresh_prices(provider=options.provider, output=path, progress=progress)
    if options.output:
        raise ConfigError(f"--output={options.output} is only valid with `cloudgan prices refresh`")
    return api.prices(
        provider=options.provider,
        accelerator=options.accelerator,
        region=options.region,
        market=options.market,
    )
