from __future__ import annotations

import io
import re

import pytest

from cloudgan.cli.table_view import show_table
from cloudgan.reports.table import Mark, Table

ESCAPE = "\x1b"


def shown(table):
    file = io.StringIO()
    show_table(table, file)
    return file.getvalue()


def test_a_table_is_printed_on_standard_output(capsys):
    show_table(Table(("name", "USD"), (("a", 1234.5),), "What it costs."))
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["What", "it", "costs."]
    assert any(line.split() == ["a", "1,234"] for line in lines)


def test_what_is_unknown_is_called_so_and_marks_keep_their_words():
    text = shown(Table(tuple("abc"), ((None, Mark(passed=False, text="too wide"), 0),)))
    assert "unknown" in text
    assert "✗ too wide" in text
    assert text.split()[-1] == "0"


def test_into_a_file_each_row_is_one_line():
    text = shown(Table(("a", "b"), (("x" * 500, "y" * 500), ("z", "w"))))
    assert sum("x" in line for line in text.splitlines()) == 1
    assert f"{'x' * 500}   {'y' * 500}" in text


def test_a_terminal_folds_what_is_too_wide_and_loses_nothing(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(Table(("a", "b"), (("x" * 50, "y" * 50),)))
    assert max(map(len, re.sub(r"\x1b\[\d*m", "", text).splitlines())) <= 40
    assert (text.count("x"), text.count("y")) == (50, 50)


@pytest.mark.parametrize("colour", [True, False])
def test_no_text_is_taken_for_markup_or_for_a_command_to_the_terminal(colour, monkeypatch):
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
    nasty = f"{ESCAPE}]0;owned\x07[bold]b[/bold]{ESCAPE}[2J:smile:"
    text = shown(Table((nasty,), ((nasty,), (Mark(passed=True, text=nasty),)), nasty))
    assert text.count("[bold]b[/bold]") == 4
    assert ":smile:" in text
    assert f"{ESCAPE}]" not in text
    assert f"{ESCAPE}[2J" not in text
    assert "\x07" not in text
