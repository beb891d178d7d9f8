from __future__ import annotations

import pytest

from cli.judged import (
    AUC,
    OFF,
    RESPONSE,
    WIDTH,
    a_check,
    a_failed_verdict,
    a_verdict,
    an_assessment,
)
from cloudgan.cli.verdict_text import describe, headline, show_verdict

FLOOR = a_check("width", WIDTH, "at the floor")
GOOD = a_check("response", RESPONSE, "good")
SHORT = "acceptable: nothing fails; acceptable, not good: "
SO_SO = [a_check(f"property {n}", AUC, "acceptable") for n in range(5)]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            a_verdict("at the floor", FLOOR),
            "at the floor: not to be told from b.h5 with 300 showers",
        ),
        (a_verdict("good", FLOOR, GOOD), "good: all 2 checks are within the limits for good"),
        (
            a_verdict("acceptable", FLOOR, SO_SO[0]),
            f"{SHORT}property 0",
        ),
        (
            a_verdict("acceptable", *SO_SO),
            f"{SHORT}property 0, property 1, property 2 and 2 more",
        ),
        (a_verdict("fail", a_check("response", RESPONSE, "fail", f"{OFF}.")), f"fail: {OFF}"),
        (a_verdict("fail", a_check("x", RESPONSE, "fail", "The x is off")), "fail: the x is off"),
        (a_verdict("fail", a_check("x", RESPONSE, "fail", "FPD is 2")), "fail: FPD is 2"),
        (
            a_verdict("fail", a_check("x", RESPONSE, "fail", "A layer is off")),
            "fail: a layer is off",
        ),
        (a_failed_verdict(), f"fail: {OFF} (and 1 more, below)"),
    ],
)
def test_the_first_line_says_the_grade_and_what_it_means(verdict, said):
    assert headline(an_assessment(), verdict) == said


def test_a_sample_is_told_with_size_cells_and_energies():
    sample = an_assessment().generated
    assert describe(sample) == "a.h5, 1,300 showers of 51x51x25 cells, 10.2 to 99.95 GeV"


def test_the_terminal_gets_headline_samples_checks_what_broke_and_notes_in_a_hundred_columns(
    capsys,
):
    show_verdict(an_assessment(), a_failed_verdict())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fail: ")
    assert lines[1].startswith("generated: a.h5")
    assert lines[2].startswith("reference: b.h5")
    order = [
        next(n for n, line in enumerate(lines) if line.startswith(begin))
        for begin in (" property", " energy response", "Limits: good", "What broke", f"  - {OFF}",
                      "Notes:", "  - angle_slope")
    ]  # fmt: skip
    assert order == sorted(order)
    assert max(map(len, lines[:9])) <= 100


def test_nothing_broke_and_nothing_to_note_take_no_lines(capsys):
    show_verdict(an_assessment(), a_verdict("at the floor", FLOOR))
    said = capsys.readouterr().out
    assert "broke" not in said
    assert "Notes" not in said
