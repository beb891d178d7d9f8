"""Flag groups that several commands share."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from cloudgan.cli.commands.deploy import deploy
from cloudgan.cli.commands.plan import plan
from cloudgan.cli.commands.train import train
from cloudgan.cli.options.shared_flags import with_flags, with_values
from cloudgan.cli.options.signature import read_signature


def size(*, width: int = 2, depth: float | None = None) -> tuple:
    """Returns a size.

    Args:
        width: In cells.
        depth: In
            layers.

    Raises:
        ValueError: Never.
    """
    return width, depth


def colour(*, shade: str = "blue") -> str:
    """Returns a colour.

    Args:
        shade: Its name.
    """
    return shade


@pytest.fixture
def paint():
    calls = []

    @with_flags(size=size, colour=colour)
    def paint(what: str, *, twice: bool = False, size: tuple = (), colour: str = "") -> None:
        """Paints something.

        It cannot be undone.

        Args:
            what: To paint.
            twice: Two coats.
            size: Of it, from the flags that commands share.
            colour: Of the paint.

        Raises:
            ValueError: No paint.
        """
        calls.append((what, twice, size, colour))

    paint.calls = calls
    return paint


def test_a_command_has_its_own_flags_and_the_shared_ones(paint):
    found = inspect.signature(paint).parameters
    assert list(found) == ["what", "width", "depth", "shade", "twice"]
    assert [p.word for p in read_signature(paint, "paint").flags] == [
        *("width", "depth", "shade", "twice")
    ]
    assert get_type_hints(paint)["depth"] == float | None


def test_shared_flags_are_passed_to_their_group(paint):
    paint("a wall", width=3, shade="red", twice=True)
    paint("a door")
    assert paint.calls == [
        ("a wall", True, (3, None), "red"),
        ("a door", False, (2, None), "blue"),
    ]


def test_an_error_in_a_group_prevents_the_call(paint):
    with pytest.raises(TypeError, match="unknown"):
        paint("a wall", unknown=1)
    assert paint.calls == []


def test_the_docstring_has_a_line_for_each_flag(paint):
    text = paint.__doc__
    assert text.startswith("Paints something.\n\nIt cannot be undone.\n\nArgs:\n")
    for line in ("what: To paint.", "width: In cells.", "depth: In", "shade: Its name."):
        assert f"    {line}\n" in text
    assert text.count("Args:") == 1
    assert text.rstrip().endswith("Raises:\n    ValueError: No paint.")


def test_with_values_replaces_the_result_of_a_group_without_flags():
    seen = []

    @with_flags(where=lambda: "here")
    def look(*, far: bool = False, where: str = "") -> None:
        """Looks.

        Args:
            far: Far away.
            where: Not a flag.
        """
        seen.append((far, where))

    there = with_values(look, where="there")
    assert [one.word for one in read_signature(there, "look").flags] == ["far"]
    look(far=True)
    there(far=True)
    assert seen == [(True, "here"), (True, "there")]


def test_plan_and_deploy_take_the_same_flags_and_those_of_train():
    planned, deployed, trained = (
        {p.word for p in read_signature(command, "x").flags} for command in (plan, deploy, train)
    )
    assert planned - deployed == {"output"}
    assert deployed - planned == {"dry-run", "detach", "yes", "allow-stale-price"}
    assert "run" in trained - planned, "a launched run has --name, not --run"
    assert {"data", "preset", "epochs", "batch", "seed"} <= planned & trained
