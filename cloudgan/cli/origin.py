"""Where showers are from: what their files tell of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.data.manifest import ArrayValue
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.data.manifest import Attribute, SourceInfo
    from cloudgan.data.source import ShowerSource

_LONGEST = 200
_MOST_VALUES = 8
_MOST_FILES = 20


def origin_table(name: str, source: ShowerSource) -> Table:
    """What is known of the files of one sample: size, layout, unit and their own attributes."""
    shown = source.files[:_MOST_FILES]
    rows = [row for file in shown for row in _rows(file.info)]
    if len(source.files) > len(shown):
        rows.append(("and further files", f"{len(source.files) - len(shown)}"))
    return Table(("what", "value"), tuple(rows), name, "ll")


def _rows(info: SourceInfo) -> Iterator[tuple[str, str]]:
    cells = "x".join(map(str, info.shape))
    yield "file", f"{info.name} ({info.bytes:,} bytes)"
    yield "showers", f"{info.records:,} of {cells} cells, {info.layout}"
    yield "unit", info.ecal_decided
    for dataset, attributes in info.attributes.items():
        for key, value in attributes.items():
            yield f"{dataset}: {key}" if dataset else key, _text(value)


def _text(value: Attribute) -> str:
    if isinstance(value, ArrayValue):
        array = value.array()
        items = [_item(one) for one in array.ravel()[: _MOST_VALUES + 1]]
        text = ", ".join(items[:_MOST_VALUES]) + ", ..." * (len(items) > _MOST_VALUES)
    else:
        text = value if isinstance(value, str) else ", ".join(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _item(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
