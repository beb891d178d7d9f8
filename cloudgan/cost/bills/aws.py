"""AWS' Cost and Usage Report: the legacy one in CSV, and CUR 2.0 of Data Exports.

Columns: https://docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html and
.../table-dictionary-cur2-line-item.html, tags: .../table-dictionary-cur2-resource-tags.html
(2026-11-21). A tag stands there only once it was activated as cost allocation tag in the billing
console. How CUR 2.0 writes the hyphen of a tag's key could not be verified: ``user_cloudgan_run`` and
``user_cloudgan-run`` are both read. Usage types are those of Amazon's own bills; that list is not
documented as a whole.
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

NAME = "AWS Cost and Usage Report"
EXPECTED = ("lineItem/UnblendedCost", "lineItem/LineItemType", "resourceTags/user:cloudgan-run")
_LEGACY = "lineitem/"
_CUR2 = "line_item_"
_CREDITS = frozenset(
    {"credit", "refund", "discount", "edpdiscount", "privateratediscount", "bundleddiscount"}
    | {"savingsplannegation"}
)

_ANY = ("",)
_PARTS: tuple[tuple[BillPart, tuple[str, ...], tuple[str, ...]], ...] = (
    ("network", _ANY, ("datatransfer", "-bytes", "natgateway", "publicipv4", "elasticip")),
    ("control plane", ("eks",), _ANY),
    ("storage", ("amazons3",), _ANY),
    ("network", ("vpc",), _ANY),
    ("disk", _ANY, ("ebs:",)),
    ("compute", ("amazonec2",), ("usage", "unusedbox", "reservation")),
)
"""Words of product codes and of usage types; the first line that fits says what it is."""


def is_ours(columns: Collection[str]) -> bool:
    """Whether a file with such columns is one; they are in lower case."""
    return "lineitem/unblendedcost" in columns or "line_item_unblended_cost" in columns


def line(row: Mapping[str, Any]) -> BillLine:
    """Reads one line.

    Raises:
        ValueError: A cell is not what it should be.
    """
    amount = amount_in(row, _name(row, "unblendedcost", "unblended_cost"))
    is_credit = _text(row, "lineitemtype", "line_item_type").lower() in _CREDITS
    return BillLine(
        run=run_of(_tags(row)),
        part=_part(row),
        amount=0.0 if is_credit else amount,
        credit=amount if is_credit else 0.0,
        currency=_text(row, "currencycode", "currency_code"),
        until=moment_in(_text(row, "usageenddate", "usage_end_date")),
    )


def _tags(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    columns = [
        (name, value)
        for name, value in row.items()
        if name.startswith(("resourcetags/", "resource_tags_")) and value
    ]
    maps = [pair for name in ("resource_tags", "tags") for pair in tags_in(row.get(name))]
    return columns + maps


def _part(row: Mapping[str, Any]) -> BillPart:
    product = _text(row, "productcode", "product_code")
    usage = _text(row, "usagetype", "usage_type")
    for part, products, usages in _PARTS:
        if has_word(product, *products) and has_word(usage, *usages):
            return part
    return "other"


def _text(row: Mapping[str, Any], legacy: str, cur2: str) -> str:
    return str(row.get(_name(row, legacy, cur2)) or "")


def _name(row: Mapping[str, Any], legacy: str, cur2: str) -> str:
    return f"{_LEGACY}{legacy}" if f"{_LEGACY}{legacy}" in row else f"{_CUR2}{cur2}"
