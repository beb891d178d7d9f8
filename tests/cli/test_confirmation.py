from __future__ import annotations

import io

import pytest

from cloudgan.cli.views.confirmation import confirm
from cloudgan.core.errors import ConfirmationError


class Terminal(io.StringIO):
    """A terminal with typed input."""

    def isatty(self):
        return True


@pytest.mark.parametrize("typed", ["y\n", "YES\n", " yes \n"])
def test_yes_on_the_terminal_confirms(monkeypatch, capsys, typed):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    confirm("Spend 5 USD?", yes=False)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "Spend 5 USD? [y/N] "), "standard output may be read by a program"


@pytest.mark.parametrize("typed", ["\n", "n\n", "yess\n", ""])
def test_any_other_answer_is_a_no(monkeypatch, typed):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(ConfirmationError, match="nothing was started") as refused:
        confirm("Spend 5 USD?", yes=False)
    assert refused.value.exit_code == 3


def test_without_a_terminal_the_error_has_the_question_and_names_yes(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(ConfirmationError, match=r"^Spend 5 USD\? Confirmation required.*add --yes"):
        confirm("Spend 5 USD?", yes=False)


def test_the_yes_flag_skips_the_question(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    confirm("Spend 5 USD?", yes=True)
    assert capsys.readouterr() == ("", "")
