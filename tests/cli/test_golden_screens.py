"""Golden screens: one command each, whole, on a terminal of 80 columns."""

import functools

import pytest

from cli import write_golden

SCREENS = {name: functools.partial(write_golden.golden, name) for name in write_golden.COMMANDS} | {
    "validate": write_golden.validation_screen
}


@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_of_a_command_is_as_it_was_and_fits_a_terminal(name):
    text = (write_golden.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    made = SCREENS[name]()
    assert made == text, "if the change is intended: make golden, and read the diff"
    lines = [line for line in text.splitlines() if not line.startswith("  cloudgan ")]
    assert len(lines) <= 22, "and the question below it"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["help", "ranges"])
def test_the_help_screens_and_the_numbers_that_flags_allow_are_as_they_were(name):
    text = (write_golden.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    made = {"help": write_golden.help_screens, "ranges": write_golden.ranges}[name]()
    assert made == text, "if the change is intended: make golden, and read the diff"
    assert "9,007,199,254,740,992" not in text, "each number has a range"
