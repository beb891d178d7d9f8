from __future__ import annotations

import pytest

from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.reports.page import Page, Section, Table, render
from cloudgan.reports.page_text import page_csv, page_markdown

PAGE = Page("Ünïcode ✓", "Lead.", (Section("s", (Table(("a",), ((1.5,),), "c"),)),))


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.csv", "A.HTML"])
def test_a_file_with_a_known_ending_in_a_folder_that_is_there_is_fine(name, tmp_path):
    check_report(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
    check_report(None)


@pytest.mark.parametrize("name", ["a.pdf", "a", "", "html", ".html", "a.html.gz"])
def test_another_ending_is_refused_with_those_there_are(name, tmp_path):
    with pytest.raises(ConfigError, match=r"\.html, \.md, \.csv"):
        check_report(name and str(tmp_path / name))


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere is no folder"):
        check_report(str(tmp_path / "nowhere" / "a.html"))
    (tmp_path / "b.md").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        check_report(str(tmp_path / "b.md"))


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.html", render), ("a.md", page_markdown), ("a.csv", page_csv), ("B.CSV", page_csv)],
)
def test_the_ending_says_what_is_written_and_nothing_is_left_beside(name, form, tmp_path):
    path = tmp_path / name
    path.write_text("old")
    write_report_file(PAGE, path)
    assert path.read_text(encoding="utf-8") == form(PAGE)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["html", "md", "csv"])
def test_a_name_with_bytes_that_are_no_text_still_gives_a_report(ending, tmp_path):
    name = b"run-\xff".decode(errors="surrogateescape")
    page = Page(name, "", (Section("s", (Table((name,), ((name,),)),)),))
    write_report_file(page, tmp_path / f"a.{ending}")
    assert "run-?" in (tmp_path / f"a.{ending}").read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "a.md").mkdir()
    with pytest.raises(DataError, match=r"a\.md"):
        write_report_file(PAGE, tmp_path / "a.md")
