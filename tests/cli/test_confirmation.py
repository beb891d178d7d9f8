from __future__ import annotations

import io

import pytest

from cloudgan.cli.confirmation import confirm
from cloudgan.core.errors import ConfirmationError


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self):
        return True


@pytest.mark.parametrize("typed", ["y\n", "YES\n", " yes \n"])
def test_somebody_says_yes(monkeypatch, capsys, typed):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    confirm("Spend 5 USD?", yes=False)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "Spend 5 USD? [y/N] "), "standard output may be read by a program"


@pytest.mark.parametrize("typed", ["\n", "n\n", "yess\n", ""])
def test_anything_else_is_a_no(monkeypatch, typed):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(ConfirmationError, match="nothing was started") as refused:
        confirm("Spend 5 USD?", yes=False)
    assert refused.value.exit_code == 3


def test_where_nobody_is_the_question_is_told_with_what_to_type(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(ConfirmationError, match=r"^Spend 5 USD\? Nobody is here.*add --yes"):
        confirm("Spend 5 USD?", yes=False)


def test_yes_asks_nobody(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    confirm("Spend 5 USD?", yes=True)
    assert capsys.readouterr() == ("", "")
