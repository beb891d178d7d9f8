"""`cloudgan prices`: shows and refreshes the price catalogue."""

from __future__ import annotations

from typing import Literal

from cloudgan.api import prices as api
from cloudgan.cli.views.output import mark_printed, print_view, progress_bars
from cloudgan.core.clouds import CloudName
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path


def prices(
    action: Literal["show", "refresh"] = "show",
    *,
    provider: CloudName | None = None,
    accelerator: str | None = None,
    region: str | None = None,
    market: Literal["on_demand", "spot"] | None = None,
    output: str | None = None,
    json: bool = False,
) -> None:
    """Shows prices with their age, or refreshes them from the clouds.

    refresh downloads the price lists of AWS, Azure and Google into your data folder (CLOUDGAN_DATA);
    the package is unchanged. The lists of AWS and Azure need no login; Google needs an API key in
    CLOUDGAN_GCP_API_KEY, AWS spot prices need a login.

    Args:
        action: show or refresh.
        provider: One cloud. Default: all.
        accelerator: For show: nodes with this accelerator, a name or a family such as a100.
        region: For show: this region only.
        market: For show: nodes on_demand or spot only.
        output: For refresh: write a new nodes.csv of the package to this file as well.
        json: Print the result as JSON.
    """
    if action == "refresh":
        path = local_path(output, source="--output") if output else None
        with progress_bars(as_json=json) as progress:
            refreshed = api.refresh_prices(provider=provider, output=path, progress=progress)
        print_view(refreshed, as_json=json)
        if problem := refreshed.problem():
            raise mark_printed(problem, as_json=json)
        return
    if output:
        raise ConfigError(f"--output={output} is only valid with `cloudgan prices refresh`")
    found = api.prices(provider=provider, accelerator=accelerator, region=region, market=market)
    print_view(found, as_json=json)
