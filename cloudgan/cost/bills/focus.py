"""FOCUS 1.x, the bill that all clouds can write alike, in CSV.

Columns: https://focus.finops.org/focus-specification/ and, as each cloud fills them,
https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-focus-1-0-aws-columns.html,
https://learn.microsoft.com/cloud-computing/finops/focus/metadata (2026-11-21). ``Tags`` is a map, in CSV
written as JSON. Kubernetes has no service category of its own: its services are known by their names.
"""

from __future__ import annotations

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

NAME = "FOCUS"
EXPECTED = ("BilledCost", "BillingCurrency", "ChargeCategory", "ServiceCategory", "Tags")


def is_ours(columns: Collection[str]) -> bool:
    """Whether a file with such columns is one; they are in lower case."""
    return {"billedcost", "billingcurrency", "chargecategory"} <= set(columns)


def line(row: Mapping[str, Any]) -> BillLine:
    """Reads one line.

    Raises:
        ValueError: A cell is not what it should be.
    """
    amount = amount_in(row, "billedcost")
    kind = str(row.get("chargecategory") or "").lower()
    is_credit = kind == "credit" or (kind == "adjustment" and amount < 0)
    return BillLine(
        run=run_of(tags_in(row.get("tags"))),
        part=_part(row),
        amount=0.0 if is_credit else amount,
        credit=amount if is_credit else 0.0,
        currency=str(row.get("billingcurrency") or ""),
        until=moment_in(row.get("chargeperiodend")),
    )


def _part(row: Mapping[str, Any]) -> BillPart:
    service, category = str(row.get("servicename") or ""), str(row.get("servicecategory") or "")
    told = f"{row.get('resourcetype') or ''} {row.get('chargedescription') or ''}"
    if has_word(service, "kubernetes"):
        return "control plane"
    if has_word(category, "networking"):
        return "network"
    if has_word(category, "storage"):
        return "disk" if has_word(told, "disk", "volume", "ebs") else "storage"
    return "compute" if has_word(category, "compute") else "other"
