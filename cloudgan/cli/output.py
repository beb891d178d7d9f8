"""What commands print: for people in lines, for programs as JSON."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cloudgan.cli.progress import Bars
from cloudgan.core.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.core.errors import CloudganError
    from cloudgan.core.progress import Progress


def show(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints a result on standard output: as one JSON object, or key by key."""
    if as_json:
        show_json(result)
        return
    for line in _lines(result, 0):
        print(line)


def show_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object."""
    print(json.dumps(result, indent=2, allow_nan=False))


def shown_after(error: CloudganError, *, as_json: bool) -> CloudganError:
    """Returns an error that ends a command whose result is on standard output already.

    With --json that result is the one object there: programs read no second one behind it.
    """
    error.is_told = as_json
    return error


def _lines(result: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in result.items():
        name = "  " * depth + key.replace("_", " ")
        if isinstance(value, dict):
            yield name
            yield from _lines(value, depth + 1)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield name
            for item in value:
                yield from _lines(item, depth + 1)
        else:
            yield f"{name:<34} {value}"


@contextmanager
def shown_progress(*, as_json: bool) -> Iterator[Progress]:
    """Bars on standard error, none beside JSON."""
    if as_json:
        yield Silent()
        return
    with Bars() as bars:
        yield bars
