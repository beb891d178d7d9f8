"""Formats of billing exports: FOCUS, AWS, Google Cloud and Azure. Each parses a row to a `BillLine`.

- FOCUS 1.x, CSV. https://focus.finops.org/focus-specification/,
  https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-focus-1-0-aws-columns.html,
  https://learn.microsoft.com/cloud-computing/finops/focus/metadata (2026-11-21). Tags are a JSON map.
  Kubernetes has no service category: its services are recognized by name.
- AWS Cost and Usage Report, legacy CSV and CUR 2.0 of Data Exports.
  https://docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html,
  .../table-dictionary-cur2-line-item.html, .../table-dictionary-cur2-resource-tags.html (2026-11-21).
  A tag appears only after its activation as cost allocation tag. How CUR 2.0 writes the hyphen of a tag
  key is not verified: ``user_cloudgan_run`` and ``user_cloudgan-run`` are accepted. Usage types are those
  of Amazon's bills; AWS documents no complete list.
- Google Cloud detailed usage: JSON lines of `bq extract`, or CSV of a query.
  https://docs.cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/detailed-usage
  (2026-11-21). ``cost`` is before credits, ``credits`` are negative, ``labels`` is a list of key and
  value; with GKE cost allocation, labels of pods are ``k8s-label/...``. BigQuery cannot write nested
  fields to CSV: the query needs ``TO_JSON_STRING(labels) AS labels``, the same for ``credits``, and
  ``service.description AS service_description`` (cloudgan's names). The words of a SKU's description
  that mean a disk come from the price lists of the catalog; Google documents none.
- Azure cost and usage details, CSV, of Enterprise and Microsoft Customer Agreements.
  https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/cost-usage-details-ea
  (2024-08-01), .../cost-usage-details-mca, .../cost-usage-details-mca-partner (2026-11-21); case differs
  and is ignored. Older files have ``Cost`` or ``PreTaxCost``. ``Tags`` is JSON, in Enterprise files often
  without braces. Dates have no time of day. Use actual cost: amortized cost has the same columns.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import show
from cloudgan.core.labels import RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from cloudgan.schema.cost_report import BillCategory

_NO_WORD = re.compile(r"[^a-z0-9]+")
_LABEL = _NO_WORD.sub("_", RUN)
_MAX_AMOUNT = 1e15
"""In any currency; the sum of all lines stays finite."""
_YEARS = range(2000, 2200)


class BillLine(NamedTuple):
    """One line of a bill.

    Attributes:
        run: Value of the run label; None without label.
        category: Category of the bill.
        amount: In `currency`, before credits.
        credit: Zero or negative, in `currency`.
        currency: ISO code.
        until: End of the usage; None: not in the line.
    """

    run: str | None
    category: BillCategory
    amount: float
    credit: float
    currency: str
    until: dt.datetime | None


def run_label(tags: Iterable[tuple[str, object]]) -> str | None:
    """Returns the value of the label cloudgan-run.

    Clouds rewrite keys: accepts ``user:cloudgan-run``, ``user_cloudgan_run`` and
    ``k8s-label/cloudgan-run``.
    """
    for key, value in tags:
        name = _NO_WORD.sub("_", key.lower())
        if value and (name == _LABEL or name.endswith(f"_{_LABEL}")):
            return str(value)
    return None


def parse_tags(cell: object) -> list[tuple[str, object]]:
    """Parses tags: a JSON object, with or without braces, or a list of key and value.

    Raises:
        ValueError: The cell is none of these.
    """
    if cell is None or cell == "":
        return []
    found: Any = cell
    if isinstance(cell, str):
        text = cell.strip()
        found = parse_json(text if text[:1] in {"{", "["} else f"{{{text}}}", "tags")
    if isinstance(found, dict):
        return list(found.items())
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return [(str(one.get("key", "")), one.get("value")) for one in found]
    raise ValueError(f"tags are {show(cell)}, expected a JSON object")


def parse_amount(row: Mapping[str, Any], column: str) -> float:
    """Parses money; an empty cell is zero in exports.

    Raises:
        ValueError: The cell is not a number.
    """
    cell = row.get(column)
    if cell is None or cell == "":
        return 0.0
    try:
        found = float(cell)
    except (TypeError, ValueError):
        found = math.nan
    if not abs(found) <= _MAX_AMOUNT:
        raise ValueError(f"{column} is {show(cell)}, expected a number")
    return found


def parse_time(cell: object) -> dt.datetime | None:
    """Parses a time, UTC by default; None if the cell is empty.

    Raises:
        ValueError: The cell is not a time.
    """
    text = str(cell or "").strip().removesuffix(" UTC").strip()
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        found = _american(text)
    if found.year not in _YEARS:
        raise ValueError(f"{show(text)} is not a time of a bill, expected for example 2026-11-21")
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def contains_any(text: str, *words: str) -> bool:
    """Returns whether a text contains one of the words, ignoring case."""
    lower = text.lower()
    return any(word in lower for word in words)


def _american(text: str) -> dt.datetime:
    """Parses a date as Azure writes it: 11/21/2026."""
    try:
        return dt.datetime.strptime(text, "%m/%d/%Y").replace(tzinfo=dt.UTC)
    except ValueError as error:
        raise ValueError(f"{show(text)} is not a time, expected for example 2026-11-21") from error


class ExportFormat(NamedTuple):
    """A billing export.

    Attributes:
        name: Display name.
        expected: Typical columns, for error messages.
        matches: Returns whether lower-case columns are of this format.
        parse: Parses one line; raises ValueError for an invalid cell.
    """

    name: str
    expected: tuple[str, ...]
    matches: Callable[[Collection[str]], bool]
    parse: Callable[[Mapping[str, Any]], BillLine]


def _split_credit(amount: float, *, is_credit: bool) -> dict[str, float]:
    return {"amount": 0.0 if is_credit else amount, "credit": amount if is_credit else 0.0}


def _parse_focus(row: Mapping[str, Any]) -> BillLine:
    amount = parse_amount(row, "billedcost")
    kind = str(row.get("chargecategory") or "").lower()
    is_credit = kind == "credit" or (kind == "adjustment" and amount < 0)
    return BillLine(
        run=run_label(parse_tags(row.get("tags"))),
        category=_focus_category(row),
        currency=str(row.get("billingcurrency") or ""),
        until=parse_time(row.get("chargeperiodend")),
        **_split_credit(amount, is_credit=is_credit),
    )


def _focus_category(row: Mapping[str, Any]) -> BillCategory:
    service, category = str(row.get("servicename") or ""), str(row.get("servicecategory") or "")
    text = f"{row.get('resourcetype') or ''} {row.get('chargedescription') or ''}"
    if contains_any(service, "kubernetes"):
        return "control plane"
    if contains_any(category, "networking"):
        return "network"
    if contains_any(category, "storage"):
        return "disk" if contains_any(text, "disk", "volume", "ebs") else "storage"
    return "compute" if contains_any(category, "compute") else "other"


_LEGACY = "lineitem/"
_CUR2 = "line_item_"
_AWS_CREDITS = frozenset(
    {"credit", "refund", "discount", "edpdiscount", "privateratediscount", "bundleddiscount"}
    | {"savingsplannegation"}
)

_ANY = ("",)
_AWS_CATEGORIES: tuple[tuple[BillCategory, tuple[str, ...], tuple[str, ...]], ...] = (
    ("network", _ANY, ("datatransfer", "-bytes", "natgateway", "publicipv4", "elasticip")),
    ("control plane", ("eks",), _ANY),
    ("storage", ("amazons3",), _ANY),
    ("network", ("vpc",), _ANY),
    ("disk", _ANY, ("ebs:",)),
    ("compute", ("amazonec2",), ("usage", "unusedbox", "reservation")),
)
"""Words in product codes and usage types; the first matching row decides."""


def _parse_aws(row: Mapping[str, Any]) -> BillLine:
    amount = parse_amount(row, _aws_column(row, "unblendedcost", "unblended_cost"))
    is_credit = _aws_text(row, "lineitemtype", "line_item_type").lower() in _AWS_CREDITS
    return BillLine(
        **_split_credit(amount, is_credit=is_credit),
        run=run_label(_aws_tags(row)),
        category=_aws_category(row),
        currency=_aws_text(row, "currencycode", "currency_code"),
        until=parse_time(_aws_text(row, "usageenddate", "usage_end_date")),
    )


def _aws_tags(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    columns = [
        (name, value)
        for name, value in row.items()
        if name.startswith(("resourcetags/", "resource_tags_")) and value
    ]
    maps = [pair for name in ("resource_tags", "tags") for pair in parse_tags(row.get(name))]
    return columns + maps


def _aws_category(row: Mapping[str, Any]) -> BillCategory:
    product = _aws_text(row, "productcode", "product_code")
    usage = _aws_text(row, "usagetype", "usage_type")
    for category, products, usages in _AWS_CATEGORIES:
        if contains_any(product, *products) and contains_any(usage, *usages):
            return category
    return "other"


def _aws_text(row: Mapping[str, Any], legacy: str, cur2: str) -> str:
    return str(row.get(_aws_column(row, legacy, cur2)) or "")


def _aws_column(row: Mapping[str, Any], legacy: str, cur2: str) -> str:
    return f"{_LEGACY}{legacy}" if f"{_LEGACY}{legacy}" in row else f"{_CUR2}{cur2}"


def _parse_gcp(row: Mapping[str, Any]) -> BillLine:
    credit = sum(parse_amount(one, "amount") for one in _gcp_credits(row.get("credits")))
    return BillLine(
        run=run_label(parse_tags(row.get("labels"))),
        category=_gcp_category(_gcp_description(row, "service"), _gcp_description(row, "sku")),
        amount=parse_amount(row, "cost"),
        credit=credit,
        currency=str(row.get("currency") or ""),
        until=parse_time(row.get("usage_end_time")),
    )


def _gcp_description(row: Mapping[str, Any], name: str) -> str:
    nested = row.get(name)
    if isinstance(nested, dict):
        return str(nested.get("description") or "")
    return str(row.get(f"{name}_description") or nested or "")


def _gcp_credits(cell: object) -> list[Mapping[str, Any]]:
    is_text = isinstance(cell, str) and cell.strip()
    found = parse_json(str(cell), "credits") if is_text else cell or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"credits are {show(cell)}, expected a list of name and amount")
    return found


def _gcp_category(service: str, sku: str) -> BillCategory:
    if contains_any(
        sku, "network", "egress", "ingress", "external ip", "data transfer", "nat gateway"
    ):
        return "network"
    if contains_any(service, "kubernetes"):
        return "control plane"
    if contains_any(service, "cloud storage"):
        return "storage"
    if contains_any(service, "networking"):
        return "network"
    if contains_any(service, "compute engine", "cloud tpu"):
        disk = contains_any(
            sku, "pd capacity", "hyperdisk", "storage image", "snapshot", "ssd backed pd"
        )
        return "disk" if disk else "compute"
    return "other"


_AZURE_COSTS = ("costinbillingcurrency", "cost", "pretaxcost")
_AZURE_CURRENCIES = ("billingcurrency", "billingcurrencycode", "currency")
_AZURE_DAYS = ("date", "usagedatetime", "usagedate")


def _parse_azure(row: Mapping[str, Any]) -> BillLine:
    amount = parse_amount(row, next(name for name in _AZURE_COSTS if name in row))
    kind = str(row.get("chargetype") or "").lower()
    is_credit = kind in {"refund", "credit"} or (kind.endswith("adjustment") and amount < 0)
    day = parse_time(_first_cell(row, _AZURE_DAYS))
    return BillLine(
        **_split_credit(amount, is_credit=is_credit),
        run=run_label(parse_tags(row.get("tags"))),
        category=_azure_category(str(row.get("metercategory") or ""), row),
        currency=_first_cell(row, _AZURE_CURRENCIES),
        until=day + dt.timedelta(days=1) if day else None,
    )


def _first_cell(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return str(next((row[name] for name in names if row.get(name)), ""))


def _azure_category(category: str, row: Mapping[str, Any]) -> BillCategory:
    if contains_any(category, "virtual machines"):
        return "compute"
    if contains_any(category, "kubernetes"):
        return "control plane"
    if contains_any(category, "bandwidth", "virtual network", "load balancer", "nat gateway"):
        return "network"
    if contains_any(category, "storage"):
        meter = f"{row.get('metersubcategory') or ''} {row.get('metername') or ''}"
        return "disk" if contains_any(meter, "disk") else "storage"
    return "other"


def _matches_gcp(columns: Collection[str]) -> bool:
    flat = {"service_description", "sku_description"} <= set(columns)
    nested = {"service", "sku"} <= set(columns)
    return {"cost", "labels", "currency"} <= set(columns) and (flat or nested)


FORMATS = (
    ExportFormat(
        "FOCUS",
        ("BilledCost", "BillingCurrency", "ChargeCategory", "ServiceCategory", "Tags"),
        lambda columns: {"billedcost", "billingcurrency", "chargecategory"} <= set(columns),
        _parse_focus,
    ),
    ExportFormat(
        "AWS Cost and Usage Report",
        ("lineItem/UnblendedCost", "lineItem/LineItemType", "resourceTags/user:cloudgan-run"),
        lambda columns: (
            not {"lineitem/unblendedcost", "line_item_unblended_cost"}.isdisjoint(columns)
        ),
        _parse_aws,
    ),
    ExportFormat(
        "Google Cloud detailed usage",
        ("cost", "currency", "labels", "service", "sku", "usage_end_time"),
        _matches_gcp,
        _parse_gcp,
    ),
    ExportFormat(
        "Azure cost and usage details",
        ("CostInBillingCurrency", "BillingCurrency", "MeterCategory", "Tags", "Date"),
        lambda columns: (
            {"metercategory", "tags"} <= set(columns) and not set(_AZURE_COSTS).isdisjoint(columns)
        ),
        _parse_azure,
    ),
)
"""The first matching format applies."""
