"""Tables and results as a person reads them, at the widths of terminals."""

import io
import json

import pytest
from rich.text import Text

from cloudgan.cli.emit import check_report, emit, print_table, write_report_file
from cloudgan.cli.failure import Failure
from cloudgan.cli.progress import ProgressBars
from cloudgan.cli.table_text import table_lines
from cloudgan.core.errors import ConfigError, DataError, VerdictError
from cloudgan.reports.page import Page, Section, page_csv, page_markdown, render
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Number, Table

URL = "gs://a-bucket-of-my-lab/runs/mini-3a59/checkpoints"
RUNS = Table(
    ("run", "state", "where", "loss/metric", "USD", "store"),
    (
        ("mine", Mark(True, "done"), "this machine", Number(0.98, "0.983 ± 0.004"), 0.0, "-"),
        (
            "a-run-with-a-long-name-3a59",
            "running",
            "gcp 2 x g2-standard-4 in us-central1, spot",
            1234567.0,
            None,
            URL,
        ),
    ),
    "Runs of this folder.",
    priority="003019",
)
NUMBERS = Table(
    tuple("abcdefgh"), (tuple(1234567.0 + n for n in range(8)), (None,) * 8), priority="01234567"
)
TEXT = Table(("key", "what"), (("one", "a sentence of words " * 20), ("two", "brief")))
LONG_WORDS = Table(("first", "second"), (("x" * 50, "y" * 50), ("brief", "z")))
WIDTHS = (60, 80, 100, 120)


def shown(table, width):
    return [line.plain for line in table_lines(table, width)]


def words(table):
    cells = [*table.columns, *(cell for row in table.rows for cell in row)]
    texts = (cell.text if isinstance(cell, Mark | Number) else cell for cell in cells)
    return {
        word
        for text in texts
        for word in (text if isinstance(text, str) else "").split()
        if len(word) > 1
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("table", [RUNS, NUMBERS, TEXT, LONG_WORDS])
def test_a_table_fits_the_width_and_cuts_no_word_and_no_number(table, width):
    lines = shown(table, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    hidden = next((line for line in lines if line.startswith("hidden at")), "")
    missing = {word for word in words(table) if word not in text}
    if missing:
        assert hidden
        assert not missing & {"run", "mine", "a-run-with-a-long-name-3a59", "0.983", "±", "0.004"}
    for word in text.split():
        if word.startswith("1,2"):
            assert word in {f"{1234567 + n:,}" for n in range(8)}
    assert "1,234,567" in text or table not in (RUNS, NUMBERS)


def test_columns_are_dropped_by_priority_and_the_last_line_names_them():
    lines = shown(RUNS, 100)
    assert lines[0] == "Runs of this folder."
    assert lines[1].split() == ["run", "state", "where", "loss/metric", "USD"]
    assert lines[-1] == "hidden at 100 columns: store; use a wider terminal or --json"
    assert shown(RUNS, 60)[-2].startswith("hidden at 60 columns: where, store; use")
    assert not any("hidden" in line for line in shown(RUNS, 200))


def test_text_wraps_at_spaces_under_its_column_and_numbers_do_not():
    lines = shown(RUNS, 100)
    row = next(n for n, line in enumerate(lines) if line.startswith("a-run"))
    assert "gcp 2 x g2-standard-4 in us-central1," in lines[row]
    assert lines[row + 1] == " " * lines[1].index("where") + "spot"
    wide = Table(("value", "what"), ((Number(1.0, "12,345,678 ± 1,234,567"), "words " * 20),))
    assert "12,345,678 ± 1,234,567  words" in shown(wide, 30)


def test_a_count_stays_with_what_it_counts():
    table = Table(("nodes",), (("2 x a3-highgpu-8g and 16 x n1-standard-64",),))
    assert shown(table, 24) == ["nodes", "2 x a3-highgpu-8g and", "16 x n1-standard-64"]


def test_rows_are_stacked_when_their_words_do_not_fit_beside_each_other():
    assert shown(LONG_WORDS, 60) == [
        f"first: {'x' * 50}",
        f"second: {'y' * 50}",
        "",
        "first: brief",
        "second: z",
    ]


def test_a_word_longer_than_the_terminal_is_alone_on_its_line_and_whole():
    table = Table(("a", "b"), (("x", URL * 2),))
    assert shown(table, 60) == ["a: x", "b:", f"  {URL * 2}"]


def test_in_a_file_each_row_is_one_line_unless_it_is_wider_than_allowed():
    file = io.StringIO()
    print_table(LONG_WORDS, file)
    assert f"{'x' * 50}  {'y' * 50}\n" in file.getvalue()
    file = io.StringIO()
    print_table(TEXT, file, width=120)
    assert max(map(len, file.getvalue().splitlines())) <= 120


def test_a_table_needs_a_digit_of_priority_for_each_column():
    with pytest.raises(ValueError, match="priority '01' does not have 3 digits"):
        Table(("a", "b", "c"), (), priority="01")


class Trained(Result):
    run: str
    epochs: int
    fails: bool = False

    def view(self):
        return View(
            f"{self.run}: {self.epochs} epochs",
            Table(("gate", "passed"), (("energy", Mark(not self.fails)),)),
            notes=("peak memory 0.9 of 23.5 GiB",),
            warnings=("the price is 450 days old",),
            commands=(
                (f"cloudgan report {self.run}", "figures and verdict"),
                ("cloudgan cost", "USD"),
            ),
            basis=("measured on this machine", Table(("step", "s"), ((1, 0.5),))),
            done=not self.fails,
        )

    def problem(self):
        return VerdictError("a gate failed") if self.fails else None


SCREEN = """\
✓ mine: 20 epochs

gate    passed
energy  ✓ pass

  peak memory 0.9 of 23.5 GiB
warning: the price is 450 days old
  cloudgan report mine    figures and verdict
  cloudgan cost           USD
"""


def test_a_result_is_its_line_table_notes_warnings_and_next_commands(capsys):
    emit(Trained(run="mine", epochs=20), as_json=False)
    assert capsys.readouterr().out == SCREEN
    emit(Trained(run="mine", epochs=20), as_json=False, verbose=True)
    basis = "\nmeasured on this machine\n\nstep    s\n   1  0.5\n"
    assert capsys.readouterr().out == SCREEN + basis


def test_as_json_it_is_its_fields_with_the_version_of_their_schema(capsys):
    emit(Trained(run="mine", epochs=20), as_json=True, verbose=True)
    found = json.loads(capsys.readouterr().out)
    assert found == {"schema_version": 1, "run": "mine", "epochs": 20, "fails": False}


@pytest.mark.parametrize("as_json", [True, False])
def test_its_problem_ends_the_command_after_it_is_printed(capsys, as_json):
    with pytest.raises(VerdictError) as raised:
        emit(Trained(run="mine", epochs=20, fails=True), as_json=as_json)
    assert raised.value.is_printed == as_json
    assert ("mine" if as_json else "✗ mine: 20 epochs") in capsys.readouterr().out


def test_colour_is_for_terminals_without_no_color(capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    emit(Trained(run="mine", epochs=20), as_json=False)
    assert "\x1b[32m✓ \x1b[0m" in (coloured := capsys.readouterr().out)
    assert Text.from_ansi(coloured).plain.rstrip() == SCREEN.rstrip()
    monkeypatch.setenv("NO_COLOR", "1")
    emit(Trained(run="mine", epochs=20), as_json=False)
    assert "\x1b[32m" not in capsys.readouterr().out


def test_names_from_other_machines_hold_no_control_sequence(capsys):
    emit(Trained(run="a\x1b]52;c;AAAA\x07b", epochs=1), as_json=False, verbose=True)
    assert "\x1b" not in capsys.readouterr().out


def test_next_commands_are_whole_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "36")
    emit(Trained(run="mine", epochs=20), as_json=False)
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert "  cloudgan report mine" in lines
    assert "      figures and verdict" in lines
    assert max(map(len, lines)) <= 36


# Report files

ESCAPE = "\x1b"
PAGE = Page("Ünïcode ✓", "Lead.", (Section("s", (Table(("a",), ((1.5,),), "c"),)),))


def printed(table):
    file = io.StringIO()
    print_table(table, file)
    return file.getvalue()


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
