"""`cloudgan prices`: shows and refreshes the price catalogue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cloudgan.api import prices as api
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core.clock import utc_today
from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.schema.options.money import PricesOptions
from cloudgan.schema.price_row import STALE_DAYS

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.price_row import FeeRow, PriceRow


@command
def prices(options: PricesOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if options.action == "refresh":
        _refresh(
            options.provider,
            local_path(options.output, source="--output") if options.output else None,
            as_json=as_json,
        )
        return
    if options.output:
        raise ConfigError(f"--output={options.output} is only valid with `cloudgan prices refresh`")
    rows = api.node_prices(
        provider=options.provider,
        accelerator=options.accelerator,
        region=options.region,
        market=options.market,
    )
    only_nodes = options.accelerator is not None or options.market is not None
    fees = () if only_nodes else api.fee_prices(provider=options.provider, region=options.region)
    _show(rows, fees, as_json=as_json)


def _show(rows: tuple[PriceRow, ...], fees: tuple[FeeRow, ...], *, as_json: bool) -> None:
    today = utc_today()
    if as_json:
        result: dict[str, Any] = {"today": today.isoformat()}
        result["rows"] = [row.model_dump() | api.age_facts(row, today) for row in rows]
        result["fees"] = [row.model_dump() | api.age_facts(row, today) for row in fees]
        print_json(result)
        return
    for row in rows:
        nodes = f"{row.accelerator_count} x {row.accelerator}"
        print(
            f"{row.provider:<6}{row.node_type:<28}{nodes:<16}{row.region:<14}"
            f"{row.market.replace('_', ' '):<10}{row.usd_per_hour:>10.4f} USD/h  {row.confidence}"
            f"  {row.age_text(today)}{f'; {row.range_text}' if row.range_text else ''}"
        )
    if fees:
        print("storage, egress and clusters:")
    for fee in fees:
        name = f"{fee.provider} {fee.kind.replace('_', ' ')}: {fee.name}, {fee.region}"
        print(f"  {name:<64}{fee.usd:>10.4f} USD/{fee.unit:<10}{fee.age_text(today)}")
    print(f"{len(rows)} prices of nodes")
    stale = sum(row.is_stale(today) for row in rows)
    if stale:
        print(
            f"{stale} of them are undated or older than {STALE_DAYS} days; run"
            " `cloudgan prices refresh`"
        )


def _refresh(provider: str | None, output: Path | None, *, as_json: bool) -> None:
    with progress_bars(as_json=as_json) as progress:
        results = api.refresh_prices(provider=provider, progress=progress)
    folder = api.price_folder()
    changed = api.write_prices(output) if output else None
    if as_json:
        sources = [
            {
                "source": result.provider,
                "state": result.state,
                "rows": result.rows,
                "rejected": [{"offer": one.name, "why": one.why} for one in result.rejected],
                "notes": list(result.messages),
            }
            for result in results
        ]
        written = {"output": str(output), "changed": changed} if output else {}
        print_json({"folder": str(folder), "sources": sources} | written)
    else:
        print("\n".join(line for result in results for line in api.refresh_lines(result)))
        print(f"written to {folder}")
        if output:
            print(f"{changed} prices differ from the package; written to {output}")
    if any(result.state == "failed" for result in results):
        sys.exit(CloudganError.exit_code)
