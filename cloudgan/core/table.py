"""Reads CSV files row by row into pydantic models; errors name file and line."""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Hashable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from cloudgan.core.documents import csv_rows, read_text, validated
from cloudgan.core.errors import DataError, show

Model = TypeVar("Model", bound=BaseModel)
Key = TypeVar("Key", bound=Hashable)


def read_table(
    path: Path | Traversable,
    model: type[Model],
    only: tuple[str, Container[str]] | None = None,
) -> Iterator[tuple[int, Model]]:
    """Reads a CSV file whose columns are the fields of `model`; an empty cell is None.

    Columns of fields with a default, and of those that `model` takes from machines.csv, may be absent.

    Args:
        only: A column and its values in the rows to validate; others are left out.

    Yields:
        The last line number of each row, from 1, and the row.

    Raises:
        DataError: The file is unreadable, has other columns, or a row is invalid.
    """
    lines = io.StringIO(read_text(path), newline="")
    columns: list[str] = []
    texts = {name for name, field in model.model_fields.items() if field.annotation is str}
    for line, cells in csv_rows(lines, str(path)):
        where = f"{path}:{line}"
        if not columns:
            columns = _checked_columns(cells, model, where)
        elif len(cells) != len(columns):
            raise DataError(f"{where}: the number of cells differs from the number of columns")
        else:
            row: dict[str, str | None] = dict(zip(columns, cells, strict=True))
            if only and row.get(only[0]) not in only[1]:
                continue
            for name in columns:
                if not row[name] and name not in texts:
                    row[name] = None
            yield line, validated(model, row, where)
    if not columns:
        raise DataError(f"{path}:1: expected the columns {', '.join(model.model_fields)}")


def read_keyed(
    path: Path | Traversable, model: type[Model], key_of: Callable[[Model], Key]
) -> dict[Key, Model]:
    """Reads a CSV file as `read_table` does, and returns its rows by key, in the order of the file.

    Raises:
        DataError: Two rows have the same key, too.
    """
    found: dict[Key, Model] = {}
    lines: dict[Key, int] = {}
    for line, row in read_table(path, model):
        key = key_of(row)
        if key in found:
            named = " ".join(key) if isinstance(key, tuple) else key
            raise DataError(f"{path}:{line}: duplicate row of {named}, see line {lines[key]}")
        found[key], lines[key] = row, line
    return found


def _checked_columns(columns: list[str], model: type[Model], where: str) -> list[str]:
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    required -= set(getattr(model, "OF_THE_MACHINE", ()))
    odd = (set(columns) - set(model.model_fields)) | (required - set(columns))
    if odd or len(set(columns)) < len(columns):
        raise DataError(
            f"{where}: expected the columns {', '.join(model.model_fields)}; differing:"
            f" {show(sorted(odd) or columns)}"
        )
    return columns
