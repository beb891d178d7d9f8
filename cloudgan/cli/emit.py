"""Prints the result of a command: as a person reads it, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from cloudgan.cli.views.output import print_json
from cloudgan.cli.views.table_text import table_lines, width_of, wrapped
from cloudgan.core import settings
from cloudgan.core.user_text import printable
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table

_SCREEN = 120
_SIGNS = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("", "")}


def emit(result: Result, *, as_json: bool, verbose: bool = False) -> None:
    """Prints the result of a command on standard output.

    Raises:
        CloudganError: The problem of the result, after it is printed.
    """
    if as_json:
        print_json(result.as_json())
    else:
        show(result, verbose=verbose)
    if problem := result.problem():
        problem.is_printed = as_json  # the result is the only object on standard output
        raise problem


def show(result: Result, *, verbose: bool = False) -> None:
    """Prints a result as a person reads it, with `verbose` its basis, too."""
    console = Console(highlight=False, markup=False, emoji=False)
    for line in _lines(result.view(), width_of(console), verbose=verbose):
        console.print(line, soft_wrap=True)


def _lines(view: View, width: int, *, verbose: bool) -> Iterator[Text]:
    sign, style = _SIGNS[view.done]
    first, *rest = wrapped(sign + view.line, width, indent="  ")
    yield Text().append(first[: len(sign)], style).append(first[len(sign) :])
    yield from map(Text, rest)
    if view.table:
        yield Text()
        yield from table_lines(view.table, width)
    if view.table and (view.notes or view.warnings or view.commands):
        yield Text()
    for note in view.notes:
        yield from map(Text, wrapped(f"  {note}", width, indent="    "))
    for warning in view.warnings:
        first, *rest = wrapped(f"warning: {warning}", width, indent="  ")
        yield Text().append("warning:", "yellow").append(first.removeprefix("warning:"))
        yield from map(Text, rest)
    if not settings.is_watched():  # the person who reads the log of a node is not on it
        yield from _commands(view.commands, width)
    for basis in view.basis if verbose else ():
        yield Text()
        if isinstance(basis, Table):
            yield from table_lines(basis, width)
        else:
            yield from map(Text, wrapped(basis, width))


def _commands(commands: tuple[tuple[str, str], ...], width: int) -> Iterator[Text]:
    """Each command beside what it does, or above it where both do not fit, in a pipe on a usual screen."""
    column = max((len(command) for command, _ in commands), default=0)
    fits = all(2 + column + 4 + len(what) <= min(width, _SCREEN) for _, what in commands)
    for command, what in commands:
        line = Text("  ").append(printable(command), "bold")
        if fits:
            yield line.append(" " * (column + 4 - len(command)) * bool(what) + printable(what))
            continue
        yield line
        yield from (Text(f"      {row}") for row in wrapped(what, width - 6) if what)
