"""Reads CSV files row by row into pydantic models; errors name file and line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)


def read_table(path: Path | Traversable, model: type[Model]) -> Iterator[tuple[int, Model]]:
    """Reads a CSV file whose columns are the fields of `model`; an empty cell is None.

    Yields:
        The last line number of each row, from 1, and the row.

    Raises:
        DataError: The file is unreadable, has other columns, or a row is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    rows = csv.DictReader(text.splitlines(keepends=True), strict=True)
    columns, expected = list(rows.fieldnames or ()), list(model.model_fields)
    if sorted(columns) != sorted(expected):
        odd = sorted(set(columns) ^ set(expected)) or columns
        raise DataError(f"{path}:1: expected the columns {', '.join(expected)}; differing: {odd}")
    try:
        for row in rows:
            yield rows.line_num, _parsed(row, model, f"{path}:{rows.line_num}")
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: not CSV ({error})") from error


def _parsed(row: dict[str, str], model: type[Model], where: str) -> Model:
    if None in row or None in row.values():
        raise DataError(f"{where}: the number of cells differs from the number of columns")
    texts = {name for name, field in model.model_fields.items() if field.annotation is str}
    cells = {name: cell if cell or name in texts else None for name, cell in row.items()}
    try:
        return model.model_validate(cells)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"]))
        raise DataError(f"{where}: {column} is {row.get(column)!r}: {first['msg']}") from error
