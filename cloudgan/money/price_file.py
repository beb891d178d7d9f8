"""A price file: nodes that no price list has, such as your own or a neocloud's, in USD per node hour.

    date: 2026-11-20
    source: offer 4711 of the provider
    nodes:
      - offer: lambda/gpu_8x_h100_sxm5/us-south-1
        accelerator: H100:8
        usd_per_hour: 31.92

`offer` is provider/node type/region in your own words. A node with `market: spot` is billed as it
runs and can be lost; the default is on_demand. `date` and `source` of a node override those of the file.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from cloudgan.core.clock import utc_today
from cloudgan.core.clouds import CLOUDS, choices
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_mapping, read_text, validated
from cloudgan.core.errors import ConfigError
from cloudgan.money.catalog import (
    Catalog,
    checked,
    is_of,
    load_catalog,
    merge,
    shipped_catalog,
    spelt,
)
from cloudgan.schema.price_row import UNKNOWN_DATE, Date, Market, Positive, PriceRow, Text

_OFFER = re.compile(r"[\w.+-]{1,64}(/[\w.+()-]{1,64}){2}", re.ASCII)
_ACCELERATOR = re.compile(r"[\w.+()-]{1,64}(:[1-9][0-9]{0,4})?", re.ASCII)
_TIMES = re.compile(
    r"(?P<first>[1-9]\d*)x(?P<last>.+)|(?P<name>.+)x(?P<count>[1-9]\d*)", re.ASCII | re.IGNORECASE
)

# YAML reads 2026-11-20 as a date, and Date is the text of one.
_YamlDate = Annotated[
    Date, BeforeValidator(lambda day: day.isoformat() if type(day) is dt.date else day)
]


class _OwnNode(Document):
    """A node type, its place and its price."""

    offer: Text
    usd_per_hour: Positive
    accelerator: Text | None = None
    market: Market = "on_demand"
    vcpu: int | None = Field(default=None, gt=0, le=10**6)
    memory_gib: Positive | None = None
    accelerator_memory_gib: Positive | None = None
    date: _YamlDate | None = None
    source: Text | None = None

    @field_validator("offer")
    @classmethod
    def _is_an_own_offer(cls, text: str) -> str:
        if not _OFFER.fullmatch(text):
            raise ValueError("write provider/node type/region, such as lab/dgx-a100/room-1")
        if text.partition("/")[0] in CLOUDS:
            raise ValueError(f"prices of {choices()} are from their price lists; name another")
        return text

    @field_validator("accelerator")
    @classmethod
    def _is_name_and_count(cls, text: str | None) -> str | None:
        if text is not None and not _ACCELERATOR.fullmatch(text):
            raise ValueError("write NAME or NAME:COUNT, such as H100:8")
        if text is not None and (found := _TIMES.fullmatch(text)):
            name, count = found["name"] or found["last"], found["count"] or found["first"]
            if any(is_of(known, name) for known in shipped_catalog().accelerators()):
                raise ValueError(f"write NAME:COUNT, here {name}:{count}")
        return text


class _PriceFile(Document):
    """The document."""

    date: _YamlDate
    source: Text | None = None
    nodes: Annotated[tuple[_OwnNode, ...], Field(min_length=1, max_length=10_000)]


def read_price_file(path: Path) -> Catalog:
    """Reads a price file.

    Raises:
        ConfigError: The file has another form, or a date that has not come.
        DataError: An offer has two prices, or costs more on spot than on demand.
    """
    text = read_text(path, ConfigError)
    given = parse_mapping(text, str(path))
    file = validated(_PriceFile, given, str(path), ConfigError, text=text)
    dates = {file.date, *(node.date or UNKNOWN_DATE for node in file.nodes)} - {UNKNOWN_DATE}
    newest, today = max(dates, default=""), utc_today()
    if newest > (today + dt.timedelta(days=1)).isoformat():  # some time zones are a day ahead
        raise ConfigError(f"{path}: date {newest} has not come: today is {today}")
    rows = (_row(node, file, path.name) for node in file.nodes)
    return checked((f"{path}: node {number}", row) for number, row in enumerate(rows, start=1))


def catalog_with(path: Path | None) -> Catalog:
    """Returns all known prices and those of a price file; None: no file."""
    return load_catalog() if path is None else merge(load_catalog(), read_price_file(path))


def named_row(offer: str | None, path: Path | None) -> PriceRow | None:
    """Returns the row of `--price-as`, among known prices and those of a file; None: none is named.

    Raises:
        UnknownNameError: No offer has this name.
    """
    return catalog_with(path).row(offer) if offer else None


def node_in_file(path: Path, accelerator: str | None, count: int) -> PriceRow:
    """Returns the only node of a price file that has these accelerators.

    Args:
        accelerator: Name or family; None: no accelerator, or the only node of the file.

    Raises:
        ConfigError: None or several have them; names the offers.
    """
    rows = read_price_file(path).rows
    found = [
        row
        for row in rows
        if (accelerator and row.accelerator_count == count and is_of(row.accelerator, accelerator))
        or (accelerator is None and (row.accelerator_count == 0 or len(rows) == 1))
    ]
    if len(found) == 1:
        return found[0]
    wanted = f"{count} x {accelerator}" if accelerator else "no accelerator"
    listed = ", ".join(row.offer for row in (found or rows)[:10])
    which = "several nodes" if found else "no node"
    raise ConfigError(
        f"--price-file={path} has {which} with {wanted}: give --price-as=OFFER, one of {listed}"
    )


def _row(node: _OwnNode, file: _PriceFile, name: str) -> PriceRow:
    provider, node_type, region = node.offer.split("/")
    accelerator, _, count = (node.accelerator or "none:0").partition(":")
    return PriceRow(
        provider=provider,
        node_type=node_type,
        accelerator=spelt(accelerator),
        accelerator_count=int(count or 1),
        accelerator_memory_gib=node.accelerator_memory_gib,
        vcpu=node.vcpu,
        memory_gib=node.memory_gib,
        region=region,
        market=node.market,
        usd_per_hour=node.usd_per_hour,
        unit_sold="node",
        source=node.source or file.source or f"price file {name}",
        date=node.date or file.date,
        confidence="A",
        snapshot="current",
    )
