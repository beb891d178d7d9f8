"""List prices of AWS: the bulk offer file of each region, which needs no login.

Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
"""

from __future__ import annotations

import csv
import io
import itertools
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from cloudgan.core.errors import DataError
from cloudgan.cost.refresh.quote import HOUR, Quote, price
from cloudgan.cost.refresh.web import shown

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.cost.refresh.wanted import Wanted
    from cloudgan.cost.refresh.web import Web

AWS_URL = "https://pricing.us-east-1.amazonaws.com"
SOURCE = "AWS Price List, bulk offer file of AmazonEC2"
_INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
_MOST_HEAD_LINES = 20
_KEPT = {
    "TermType": "OnDemand",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
}
_KEPT_WHERE_TOLD = {"MarketOption": "OnDemand", "Location Type": "AWS Region"}
_READ = ("Instance Type", "Unit", "PricePerUnit", "Currency")
_ENDED = "the file ends before its table"


def aws_quotes(
    web: Web, wanted: Wanted, today: dt.date, progress: Progress, url: str = AWS_URL
) -> Iterator[Quote]:
    """Reads the list prices of the wanted nodes, from one file of a region after the other.

    Raises:
        DataError: A file is not what AWS gives.
        CloudganError: AWS cannot be reached, or is busy.
    """
    progress.start("asking AWS", len(wanted.regions), "regions")
    regions = web.json(url + _INDEX).get("regions")
    if not isinstance(regions, dict):
        raise DataError(f"{url}{_INDEX}: an index without regions")
    for region in wanted.regions:
        address = urljoin(url, _address(regions, region))
        with tempfile.TemporaryFile() as file:
            web.download(address, file)
            file.seek(0)
            lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                yield from _quotes(lines, wanted, region, today, shown(address))
            except (UnicodeDecodeError, csv.Error) as error:
                raise DataError(f"{shown(address)}: no CSV ({error})") from error
        progress.advance()


def _address(regions: dict[str, Any], region: str) -> str:
    found = regions.get(region)
    address = found.get("currentVersionUrl") if isinstance(found, dict) else None
    if not isinstance(address, str) or not address.startswith("/"):
        raise DataError(f"{_INDEX}: no file for {region}")
    return f"{address.removesuffix('.json')}.csv"


def _quotes(
    lines: io.TextIOWrapper, wanted: Wanted, region: str, today: dt.date, where: str
) -> Iterator[Quote]:
    date = today.isoformat()
    for line in itertools.islice(lines, _MOST_HEAD_LINES):
        first = next(csv.reader([line]), [""])
        if first[:1] == ["Publication Date"] and len(first) > 1:
            date = first[1][:10]
        if first[:1] == ["SKU"]:
            break
    else:
        raise DataError(f"{where}: {_ENDED}")
    lacking = [name for name in (*_KEPT, *_READ) if name not in first]
    if lacking:
        raise DataError(f"{where}: no columns {', '.join(lacking)}")
    told = {name: text for name, text in _KEPT_WHERE_TOLD.items() if name in first}
    for row in csv.DictReader(lines, first, strict=True):
        if any(row[name] != text for name, text in (_KEPT | told).items()):
            continue
        node = wanted.nodes.get(row["Instance Type"])
        if node:
            usd, unit = price(row["PricePerUnit"]), row["Unit"]
            unit = HOUR if unit == "Hrs" else unit
            yield Quote(node, region, "on_demand", usd, row["Currency"], SOURCE, date, unit)
