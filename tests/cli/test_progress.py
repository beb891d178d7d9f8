from __future__ import annotations

import io

import pytest

from cloudgan.cli.views.progress import ProgressBars


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def work_until_ctrl_c(bars):
    bars.start("converting a[0].h5", 100, "showers")
    bars.advance(60, note="shard 2")
    raise KeyboardInterrupt


@pytest.fixture
def clock():
    return Clock()


def test_without_a_terminal_a_task_prints_start_periodic_and_end_lines(clock):
    stream = io.StringIO()
    with ProgressBars(stream, now=clock) as bars:
        bars.start("training", 2000, "steps")
        for _ in range(40):
            clock.seconds += 1
            bars.advance(25, note="loss 3.1")
    assert stream.getvalue().splitlines() == [
        "training ...",
        "training: 375/2,000 steps, 25 steps/s, 1 min 05 s left, loss 3.1",
        "training: 750/2,000 steps, 25 steps/s, 50 s left, loss 3.1",
        "training: done, 1,000 steps, 25 steps/s, 40 s",
    ]


def test_a_task_of_unknown_length_has_no_remaining_time(clock):
    stream = io.StringIO()
    with ProgressBars(stream, now=clock) as bars:
        bars.start("reading")
        clock.seconds += 20
        bars.advance(2)
        bars.say("a line that stays")
    assert stream.getvalue().splitlines() == [
        "reading ...",
        "reading: 2, 0.1/s",
        "a line that stays",
        "reading: done, 2, 0.1/s, 20 s",
    ]


def test_a_new_task_ends_the_one_before(clock):
    stream = io.StringIO()
    with ProgressBars(stream, now=clock) as bars:
        bars.start("one")
        bars.start("two")
    assert stream.getvalue().splitlines() == [
        "one ...",
        "one: done, 0 s",
        "two ...",
        "two: done, 0 s",
    ]


def test_work_that_failed_is_not_called_done(clock):
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), ProgressBars(stream, now=clock) as bars:
        work_until_ctrl_c(bars)
    assert stream.getvalue().splitlines()[-1] == "converting a[0].h5: stopped, 60 showers, 0 s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_are_bars_and_the_cursor_comes_back_after_ctrl_c(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), ProgressBars(stream) as bars:
        work_until_ctrl_c(bars)
    shown = stream.getvalue()
    assert "converting a[0].h5" in shown
    assert "60/100 showers" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_in_ci_there_are_no_bars(monkeypatch):
    monkeypatch.setenv("CI", "true")
    stream = Terminal()
    with ProgressBars(stream) as bars:
        bars.start("training", 10, "steps")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(("code", "end"), [(0, "done"), (75, "stopped")])
def test_a_process_that_ends_with_code_0_has_done_its_task(clock, code, end):
    stream = io.StringIO()

    def work():
        with ProgressBars(stream, now=clock) as bars:
            bars.start("iterations", 8, "iterations")
            bars.advance(8)
            raise SystemExit(code)

    with pytest.raises(SystemExit):
        work()
    assert stream.getvalue().splitlines()[-1].startswith(f"iterations: {end}, 8 iterations")
