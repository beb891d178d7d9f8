"""`cloudgan prices`: what the catalogue says and how old it is; refreshes and verifies it."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from cloudgan.cli.output import show_json, shown_progress
from cloudgan.core import settings
from cloudgan.core.clock import utc_now, utc_today
from cloudgan.core.errors import CloudganError, CredentialsError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from cloudgan.core.fee_row import FeeRow
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.refresh.refreshing import Outcome
    from cloudgan.cost.verify import Verification

Source = Literal["all", "aws", "azure", "gcp"]
_MOST_SHOWN_REFUSALS = 10


def prices(
    action: Literal["show", "refresh", "verify"] = "show",
    *,
    source: Source = "all",
    accelerator: str | None = None,
    region: str | None = None,
    market: Literal["on_demand", "spot"] | None = None,
    json: bool = False,
) -> None:
    """Shows prices with their age, refreshes them from the clouds, or verifies them elsewhere.

    refresh asks AWS's, Azure's and Google's own price lists and keeps what it finds in your data
    folder (CLOUDGAN_DATA); the package stays as it is. AWS's list and Azure need no login; Google
    needs an API key in CLOUDGAN_GCP_API_KEY, AWS's spot prices a login. verify shows where gpuhunt
    says something else by more than 5 %.

    Args:
        action: show, refresh or verify.
        source: One cloud, or all.
        accelerator: Show and verify nodes with this one only: a name, or a family such as a100.
        region: Show and verify this region only.
        market: Show and verify nodes on_demand or spot only.
        json: Print the result as JSON.
    """
    if action == "refresh":
        _refresh(source, as_json=json)
        return
    rows = _rows(source, accelerator, region, market)
    if action == "verify":
        _verify(rows, source, as_json=json)
    else:
        only_nodes = accelerator is not None or market is not None
        _show(rows, () if only_nodes else _fees(source, region), as_json=json)


def _fees(source: Source, region: str | None) -> tuple[FeeRow, ...]:
    from cloudgan.core.fee_row import ANY_REGION
    from cloudgan.cost.fees import load_fees

    return tuple(
        row
        for row in load_fees().rows
        if source in {"all", row.provider}
        and (region is None or row.region in {region, ANY_REGION})
    )


def _rows(
    source: Source,
    accelerator: str | None,
    region: str | None,
    market: Literal["on_demand", "spot"] | None,
) -> tuple[PriceRow, ...]:
    from cloudgan.cost.catalog import load_catalog

    provider = None if source == "all" else source
    return load_catalog().find(
        provider=provider, accelerator=accelerator, region=region, market=market
    )


def _show(rows: tuple[PriceRow, ...], fees: tuple[FeeRow, ...], *, as_json: bool) -> None:
    from cloudgan.cost.age import age_text

    today = utc_today()
    if as_json:
        told: dict[str, Any] = {"today": today.isoformat()}
        told["rows"] = [row.model_dump() | _age(row, today) for row in rows]
        told["fees"] = [row.model_dump() | _age(row, today) for row in fees]
        show_json(told)
        return
    for row in rows:
        print(_line(row, age_text(row, today)))
    if fees:
        print("beside nodes:")
    for fee in fees:
        what = f"{fee.provider} {fee.kind.replace('_', ' ')}: {fee.name}, {fee.region}"
        print(f"  {what:<64}{fee.usd:>10.4f} USD/{fee.unit:<10}{age_text(fee, today)}")
    print("\n".join(_stale(rows, today)))


def _line(row: PriceRow, age: str) -> str:
    what = f"{row.accelerator_count} x {row.accelerator}"
    return (
        f"{row.provider:<6}{row.node_type:<28}{what:<16}{row.region:<14}"
        f"{row.market.replace('_', ' '):<10}{row.usd_per_hour:>10.4f} USD/h  {row.confidence}  {age}"
    )


def _age(row: Any, today: dt.date) -> dict[str, Any]:
    from cloudgan.cost.age import age_text, is_stale

    return {
        "id": row.row_id,
        "age": age_text(row, today),
        "age_days": row.age_days(today),
        "stale": is_stale(row, today),
    }


def _stale(rows: tuple[PriceRow, ...], today: dt.date) -> Iterator[str]:
    from cloudgan.core.dated_fact import STALE_DAYS
    from cloudgan.cost.age import is_stale

    old = sum(is_stale(row, today) for row in rows)
    yield f"{len(rows)} prices of nodes"
    if old:
        yield (
            f"{old} of them are undated or older than {STALE_DAYS} days; `cloudgan prices refresh`"
            " asks the clouds"
        )


def _refresh(source: Source, *, as_json: bool) -> None:
    from cloudgan.cost.refresh.refreshing import refresh
    from cloudgan.cost.refresh.sources import parts_by_source

    folder, now = settings.data_folder() / "prices", datetime.fromisoformat(utc_now())
    with shown_progress(as_json=as_json) as progress:
        outcomes = [
            refresh(name, parts, folder)
            for name, parts in parts_by_source(progress, now).items()
            if source in {"all", name}
        ]
    _refuse_nothing(outcomes)
    if as_json:
        show_json({"folder": str(folder), "sources": [_told(outcome) for outcome in outcomes]})
    else:
        print("\n".join(line for outcome in outcomes for line in _sentences(outcome)))
        print(f"kept in {folder}")
    if any(outcome.state == "failed" for outcome in outcomes):
        sys.exit(CloudganError.exit_code)


def _refuse_nothing(outcomes: list[Outcome]) -> None:
    if any(outcome.state == "refreshed" for outcome in outcomes):
        return
    said = "\n".join(line for outcome in outcomes for line in _sentences(outcome))
    if all(outcome.state == "skipped" for outcome in outcomes):
        raise CredentialsError(f"nothing was refreshed\n{said}")
    raise CloudganError(f"nothing was refreshed\n{said}")


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "source": outcome.provider,
        "state": outcome.state,
        "rows": outcome.rows,
        "refused": [{"offer": one.name, "why": one.why} for one in outcome.refused],
        "told": list(outcome.told),
    }


def _sentences(outcome: Outcome) -> Iterator[str]:
    count = f", {outcome.rows} prices" if outcome.rows else ""
    yield f"{outcome.provider}: {outcome.state}{count}"
    yield from (f"  {line}" for line in outcome.told)
    if outcome.refused:
        yield f"  {len(outcome.refused)} prices refused, which cannot be:"
        for one in outcome.refused[:_MOST_SHOWN_REFUSALS]:
            yield f"    {one.name}: {one.why}"
        more = len(outcome.refused) - _MOST_SHOWN_REFUSALS
        if more > 0:
            yield f"    and {more} more; --json tells all"


def _verify(rows: tuple[PriceRow, ...], source: Source, *, as_json: bool) -> None:
    from cloudgan.cost.refresh.gpuhunt_prices import gpuhunt_prices
    from cloudgan.cost.refreshed import PROVIDERS
    from cloudgan.cost.verify import TOLERANCE, verify

    clouds = PROVIDERS if source == "all" else (source,)
    found = verify(rows, gpuhunt_prices(clouds))
    if as_json:
        show_json(_verified(found) | {"tolerance": TOLERANCE})
        return
    for one in found.disagreements:
        offer = one.row.row_id.removeprefix("node/").removesuffix("/current")
        print(
            f"{offer:<60}{one.row.usd_per_hour:>10.4f} here{one.other_usd_per_hour:>10.4f} gpuhunt"
            f"{one.difference:>+8.0%}  {one.remark}"
        )
    print(
        f"{len(found.disagreements)} differ by more than {TOLERANCE:.0%}, {found.agreed} agree,"
        f" {found.unknown_there} are unknown to gpuhunt"
    )


def _verified(found: Verification) -> dict[str, Any]:
    today = utc_today()
    return {
        "agreed": found.agreed,
        "unknown_there": found.unknown_there,
        "disagreements": [
            _age(one.row, today)
            | {
                "usd_per_hour": one.row.usd_per_hour,
                "other_usd_per_hour": one.other_usd_per_hour,
                "difference": one.difference,
                "remark": one.remark,
            }
            for one in found.disagreements
        ],
    }
