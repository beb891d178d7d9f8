"""Prints the result of a command: as a person reads it, or as JSON."""

from __future__ import annotations

from cloudgan.cli.views.output import mark_printed, print_json, print_table
from cloudgan.core.printable import printable
from cloudgan.reports.result import Result
from cloudgan.reports.table import Table


def emit(result: Result, *, as_json: bool, verbose: bool = False) -> None:
    """Prints a result on standard output, with `verbose` its basis, too.

    Raises:
        CloudganError: The problem of the result, after it is printed.
    """
    if as_json:
        print_json(result.as_json())
    else:
        view = result.view()
        sign = {True: "✓ ", False: "✗ ", None: ""}[view.done]
        print(printable(sign + view.line))
        if view.table:
            print_table(view.table)
        for line in (*view.notes, *(f"warning: {one}" for one in view.warnings)):
            print(printable(line))
        for command, what in view.commands:
            print(printable(f"  {command}    {what}"))
        for basis in view.basis if verbose else ():
            print_table(basis) if isinstance(basis, Table) else print(printable(basis))
    if problem := result.problem():
        raise mark_printed(problem, as_json=as_json)
