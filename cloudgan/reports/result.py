"""Results of commands: one value that a terminal, a notebook and `--json` show.

A command returns a `Result`. `Result.view` says what a person reads; the fields are what `--json` prints,
so that nothing is printed for people that a program cannot read.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import Page, table_html
from cloudgan.reports.table import Table


@dataclass(frozen=True)
class View:
    """What a person reads of a result, from top to bottom.

    The line is such as ``mine: 20 epochs, 338 steps in 80 s``, several for a result without a table; notes are short.
    Warnings say what may be wrong, commands what to do next and what for. With ``-v`` the basis says how the result was
    obtained. A tick precedes the line if it is done, a cross if not, nothing for None.
    """

    line: str
    table: Table | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    basis: tuple[str | Table, ...] = ()
    done: bool | None = None


class Result(BaseModel):
    """Base of all results; a subclass adds its fields and its view."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True
    )

    schema_version: Literal[1] = 1

    def view(self) -> View:
        """Returns what a person reads."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Returns what `--json` prints."""
        return self.model_dump(mode="json")

    def page(self) -> Page | None:
        """Returns the page that `--report` writes; None: it has none, or the command writes it."""
        return None

    def problem(self) -> CloudganError | None:
        """Returns the error that ends the command after its result is printed; None: it succeeded."""
        return None

    def _repr_html_(self) -> str:
        """Shows the result in a notebook."""
        view = self.view()
        table = table_html(view.table) if view.table else ""
        return f"<p>{escape(view.line)}</p>{table}" + "".join(
            f"<p>{escape(line)}</p>" for line in (*view.notes, *view.warnings)
        )

    def __repr__(self) -> str:
        """The line of the view: a value that fits a screen."""
        return f"<{type(self).__name__}: {self.view().line}>"

    __str__ = __repr__
