"""Google Cloud's detailed usage export, as `bq extract` writes it in JSON lines, or as CSV of a query.

Fields: https://docs.cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/detailed-usage
(2026-11-21): ``cost`` is before credits, ``credits`` lists them with negative amounts, ``labels`` is a
list of key and value; with GKE cost allocation the pods' labels come as ``k8s-label/...``. BigQuery
writes no nested fields into CSV: there a query has to make ``TO_JSON_STRING(labels) AS labels``, the
same of ``credits``, and ``service.description AS service_description``; those three names are ours.
Which words of a SKU's description mean a disk is from the price lists that the catalogue was made of,
and not documented.
"""

from __future__ import annotations

import json
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

NAME = "Google Cloud detailed usage"
EXPECTED = ("cost", "currency", "labels", "service", "sku", "usage_end_time")


def is_ours(columns: Collection[str]) -> bool:
    """Whether a file with such columns is one; they are in lower case."""
    flat = {"service_description", "sku_description"} <= set(columns)
    nested = {"service", "sku"} <= set(columns)
    return {"cost", "labels", "currency"} <= set(columns) and (flat or nested)


def line(row: Mapping[str, Any]) -> BillLine:
    """Reads one line.

    Raises:
        ValueError: A cell is not what it should be.
    """
    credit = sum(amount_in(one, "amount") for one in _list(row.get("credits")))
    return BillLine(
        run=run_of(tags_in(row.get("labels"))),
        part=_part(_description(row, "service"), _description(row, "sku")),
        amount=amount_in(row, "cost"),
        credit=credit,
        currency=str(row.get("currency") or ""),
        until=moment_in(row.get("usage_end_time")),
    )


def _description(row: Mapping[str, Any], name: str) -> str:
    nested = row.get(name)
    if isinstance(nested, dict):
        return str(nested.get("description") or "")
    return str(row.get(f"{name}_description") or nested or "")


def _list(cell: object) -> list[Mapping[str, Any]]:
    found = json.loads(cell) if isinstance(cell, str) and cell.strip() else cell or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"credits are {str(cell)[:60]!r}, expected a list of name and amount")
    return found


def _part(service: str, sku: str) -> BillPart:
    if has_word(sku, "network", "egress", "ingress", "external ip", "data transfer", "nat gateway"):
        return "network"
    if has_word(service, "kubernetes"):
        return "control plane"
    if has_word(service, "cloud storage"):
        return "storage"
    if has_word(service, "networking"):
        return "network"
    if has_word(service, "compute engine", "cloud tpu"):
        disk = has_word(
            sku, "pd capacity", "hyperdisk", "storage image", "snapshot", "ssd backed pd"
        )
        return "disk" if disk else "compute"
    return "other"
