"""Tables on standard output and report files."""

from __future__ import annotations

import io

import pytest

from cloudgan.cli.failure import Failure
from cloudgan.cli.views.output import check_report, print_table, write_report_file
from cloudgan.cli.views.progress import ProgressBars
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.reports.page import Page, Section, page_csv, page_markdown, render
from cloudgan.reports.table import Mark, Table

ESCAPE = "\x1b"
PAGE = Page("Ünïcode ✓", "Lead.", (Section("s", (Table(("a",), ((1.5,),), "c"),)),))


def printed(table):
    file = io.StringIO()
    print_table(table, file)
    return file.getvalue()


def test_a_table_is_printed_on_standard_output(capsys):
    print_table(Table(("name", "USD"), (("a", 1234.5),), "What it costs."))
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["What", "it", "costs."]
    assert any(line.split() == ["a", "1,234"] for line in lines)


def test_unknown_cells_say_so_and_marks_keep_their_text():
    text = printed(Table(tuple("abc"), ((None, Mark(passed=False, text="too wide"), 0),)))
    assert "unknown" in text
    assert "✗ too wide" in text
    assert text.split()[-1] == "0"


@pytest.mark.parametrize("colour", [True, False])
def test_cells_are_read_neither_as_markup_nor_as_control_sequences(colour, monkeypatch):
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
    nasty = f"{ESCAPE}]0;owned\x07[bold]b[/bold]{ESCAPE}[2J:smile:"
    text = printed(Table((nasty,), ((nasty,), (Mark(passed=True, text=nasty),)), nasty))
    assert text.count("[bold]b[/bold]") == 4
    assert ":smile:" in text
    assert f"{ESCAPE}]" not in text
    assert f"{ESCAPE}[2J" not in text
    assert "\x07" not in text


def test_control_sequences_from_other_machines_are_replaced(capsys):
    clipboard = f"{ESCAPE}]52;c;AAAA\x07 and \x9b2J"
    Failure(f"a cluster says {clipboard}", 1).report(as_json=False)
    with ProgressBars(bars=False) as progress:
        progress.say(clipboard)
    shown = "".join(capsys.readouterr())
    assert shown.count("]52;c;AAAA") == 2
    assert all(one.isprintable() or one == "\n" for one in shown)


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.csv", "A.HTML"])
def test_a_known_suffix_in_an_existing_folder_is_accepted(name, tmp_path):
    check_report(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
    check_report(None)


@pytest.mark.parametrize("name", ["a.pdf", "a", "", "html", ".html", "a.html.gz"])
def test_an_unknown_suffix_is_refused_with_the_valid_ones(name, tmp_path):
    with pytest.raises(ConfigError, match=r"\.html, \.md, \.csv"):
        check_report(name and str(tmp_path / name))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        check_report(str(tmp_path / "nowhere" / "a.html"))
    (tmp_path / "b.md").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        check_report(str(tmp_path / "b.md"))


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.html", render), ("a.md", page_markdown), ("a.csv", page_csv), ("B.CSV", page_csv)],
)
def test_the_suffix_selects_the_format_and_no_other_file_remains(name, form, tmp_path):
    path = tmp_path / name
    path.write_text("old")
    write_report_file(PAGE, path)
    assert path.read_text(encoding="utf-8") == form(PAGE)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["html", "md", "csv"])
def test_undecodable_bytes_in_a_name_are_replaced(ending, tmp_path):
    name = b"run-\xff".decode(errors="surrogateescape")
    page = Page(name, "", (Section("s", (Table((name,), ((name,),)),)),))
    write_report_file(page, tmp_path / f"a.{ending}")
    assert "run-?" in (tmp_path / f"a.{ending}").read_text(encoding="utf-8")


def test_an_unwritable_file_is_named(tmp_path):
    (tmp_path / "a.md").mkdir()
    with pytest.raises(DataError, match=r"a\.md"):
        write_report_file(PAGE, tmp_path / "a.md")
