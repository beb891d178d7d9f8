"""Azure's cost and usage details, in CSV, as Enterprise and as Microsoft Customer Agreements spell it.

Columns: https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/cost-usage-details-ea
(version 2024-08-01), .../cost-usage-details-mca and .../cost-usage-details-mca-partner, all read
2026-11-21: the same words, once in Pascal and once in camel case, so they are compared in lower case.
``CostInBillingCurrency`` is of both; older files have ``Cost`` or ``PreTaxCost``. ``Tags`` is JSON, in
files of Enterprise Agreements often without its braces. A day is told, no hour. Give the export of
actual cost: amortized cost has the same columns.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from cloudgan.cost.bills.bill_line import (
    BillLine,
    amount_in,
    has_word,
    moment_in,
    run_of,
    tags_in,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cloudgan.core.comparison import BillPart

NAME = "Azure cost and usage details"
EXPECTED = ("CostInBillingCurrency", "BillingCurrency", "MeterCategory", "Tags", "Date")
_COSTS = ("costinbillingcurrency", "cost", "pretaxcost")
_CURRENCIES = ("billingcurrency", "billingcurrencycode", "currency")
_DAYS = ("date", "usagedatetime", "usagedate")


def is_ours(columns: Collection[str]) -> bool:
    """Whether a file with such columns is one; they are in lower case."""
    has_cost = any(name in columns for name in _COSTS)
    return has_cost and "metercategory" in columns and "tags" in columns


def line(row: Mapping[str, Any]) -> BillLine:
    """Reads one line.

    Raises:
        ValueError: A cell is not what it should be.
    """
    amount = amount_in(row, next(name for name in _COSTS if name in row))
    kind = str(row.get("chargetype") or "").lower()
    is_credit = kind in {"refund", "credit"} or (kind.endswith("adjustment") and amount < 0)
    day = moment_in(_first(row, _DAYS))
    return BillLine(
        run=run_of(tags_in(row.get("tags"))),
        part=_part(str(row.get("metercategory") or ""), row),
        amount=0.0 if is_credit else amount,
        credit=amount if is_credit else 0.0,
        currency=_first(row, _CURRENCIES),
        until=day + dt.timedelta(days=1) if day else None,
    )


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return str(next((row[name] for name in names if row.get(name)), ""))


def _part(category: str, row: Mapping[str, Any]) -> BillPart:
    if has_word(category, "virtual machines"):
        return "compute"
    if has_word(category, "kubernetes"):
        return "control plane"
    if has_word(category, "bandwidth", "virtual network", "load balancer", "nat gateway"):
        return "network"
    if has_word(category, "storage"):
        meter = f"{row.get('metersubcategory') or ''} {row.get('metername') or ''}"
        return "disk" if has_word(meter, "disk") else "storage"
    return "other"
