import contextlib
import io

import pytest

from cloudgan.cli.progress import ProgressBars
from terminal import Screen


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock():
    return Clock()


def printed(stream, clock, work, fails):
    ends = contextlib.nullcontext() if fails is None else pytest.raises(fails)
    with ends, ProgressBars(stream, now=clock) as bars:
        work(bars)
    return stream.getvalue()


@pytest.fixture
def lines(clock):
    """Runs a function with progress where there is no terminal; returns what is printed."""
    return lambda work, fails=None: printed(io.StringIO(), clock, work, fails).splitlines()


@pytest.fixture
def screen(clock, monkeypatch):
    """Runs a function with progress on a terminal; returns the screen."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def run(work, columns=80, fails=None):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = Screen(columns)
        shown.write(printed(Terminal(), clock, work, fails).replace("\n", "\r\n"))
        return shown

    return run


def test_without_a_terminal_a_task_says_each_minute_how_far_it_is_and_at_its_end_how_long(
    clock, lines
):
    def work(bars):
        bars.start("converting", 2000, "steps")
        for _ in range(70):
            clock.seconds += 2
            bars.advance(25, note="loss 3.1  shard 2")

    assert lines(work) == [
        "converting: 750/2,000 steps, 38%, 12.5 steps/s, loss 3.1, shard 2, 1 min 40 s left",
        "converting: 1,500/2,000 steps, 75%, 12.5 steps/s, loss 3.1, shard 2, 40 s left",
        "converting: 1,750 steps in 2 min 20 s",
    ]


def test_a_task_of_unknown_length_says_that_it_began(clock, lines):
    def work(bars):
        bars.start("loading")
        clock.seconds += 20
        bars.say("a line that stays")
        bars.start("reading")
        bars.advance(2)
        clock.seconds += 3

    assert lines(work) == ["loading", "a line that stays", "reading", "reading: 2 in 3.0 s"]


def train(bars, clock, epochs=3, validates=True):
    for epoch in range(epochs):
        bars.start("mine", epochs * 100, "showers", done=epoch * 100, count=f"{epoch + 1}/{epochs}")
        for _ in range(4):
            clock.seconds += 10
            bars.advance(25, "G 65.2  D 23.9")
        if validates:
            bars.start("validating", 200, "showers")
            clock.seconds += 20
            bars.advance(100)
        bars.say(f"epoch {epoch + 1}")


def test_a_run_of_several_parts_leaves_the_lines_of_its_parts(clock, lines):
    assert lines(lambda bars: train(bars, clock)) == ["epoch 1", "epoch 2", "epoch 3"]


def test_on_a_terminal_the_live_line_of_a_run_tells_the_time_that_is_left_of_the_run(clock, screen):
    def work(bars):
        train(bars, clock, validates=False)
        bars.start("mine", 400, "showers", done=300, count="4/4")
        bars._live.refresh()

    shown = screen(work)
    assert shown.shown == ["epoch 1", "epoch 2", "epoch 3"]
    # 275 showers in 110 s after the first call.
    live = "mine  4/4  ━━━━━━━━━━━━━━━╸───── 75%  2.5 showers/s  G 65.2  D 23.9  40 s left"
    assert live == max(shown.live, key=len)


def test_the_rate_is_that_of_training_and_the_time_that_is_left_includes_validation(clock, screen):
    def work(bars):
        train(bars, clock)
        bars.start("mine", 400, "showers", done=300, count="4/4")
        bars._live.refresh()

    # 275 showers in 110 s of training and 40 s of validation; the last one began 20 s ago.
    assert any("2.5 showers/s" in row and "35 s left" in row for row in screen(work).live)


def test_a_task_after_the_run_leaves_its_line_again(clock, lines):
    def work(bars):
        train(bars, clock, epochs=1)
        bars.end()
        bars.start("comparing", 2, "steps")
        bars.advance(2)

    assert lines(work) == ["epoch 1", "comparing: 2 steps in 0.0 s"]


@pytest.mark.parametrize(
    ("total", "done", "now", "said"),
    [
        (6, 4, 2, "evolving: 2 iterations in 0.0 s"),
        (5, 4, 1, "evolving: 1 iteration in 0.0 s"),
        (4, 4, 0, "evolving: 0.0 s"),
    ],
)
def test_a_continued_task_says_at_its_end_what_took_this_time(lines, total, done, now, said):
    def work(bars):
        bars.start("evolving", total, "iterations", done=done)
        for _ in range(now):
            bars.advance()

    assert lines(work) == [said]


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 120])
def test_the_live_line_has_one_row_at_any_width_and_drops_whole_parts(columns, clock, screen):
    def work(bars):
        bars.start("training-a-run", 400, "showers", done=100, count="4/20")
        bars.advance(25, "G 65.2  D 23.9")
        clock.seconds += 10
        bars.advance(25, "G 65.2  D 23.9")
        bars._live.refresh()

    shown = screen(work, columns)
    assert shown.wrapped == []
    row = next(row for row in reversed(shown.live) if row)
    assert len(row) < columns
    parts = (
        "training-a-run",
        "4/20",
        "38%",
        "2.5 showers/s",
        "G 65.2",
        "D 23.9",
        "1 min 40 s left",
    )
    rest = row
    for part in parts:
        rest = rest.replace(part, "", 1)
    assert set(rest) <= set(" ━╸─")
    assert row.startswith("training-a-run")
    assert ("1 min 40 s left" in row) == (columns > 31)
    assert all(part in row for part in parts if columns > 70)


def test_a_live_line_of_many_parts_drops_the_bar_first(clock, screen):
    def work(bars):
        bars.start("training-a-run", 400, "showers", count="4/20")
        for _ in range(2):
            bars.advance(50, "G 65.2  D 23.9  0.12 USD")
            clock.seconds += 10
        bars._live.refresh()

    assert "━" in "".join(screen(work, 120).live)
    assert "━" not in "".join(screen(work, 60).live)


def test_a_permanent_line_is_wrapped_at_spaces(screen):
    shown = screen(lambda bars: bars.say("some words of a long warning " * 6), 40)
    assert shown.wrapped == []
    assert (
        " ".join(row.strip() for row in shown.rows).split()
        == ("some words of a long warning " * 6).split()
    )


def test_a_quick_task_leaves_no_line_on_a_terminal(clock, screen):
    def work(bars):
        bars.start("quick", 1)
        bars.advance(1)
        bars.start("slow", 5, "showers")
        clock.seconds += 12
        bars.advance(5)

    assert screen(work).shown == ["slow: 5 showers in 12 s"]


def work_until_ctrl_c(bars):
    bars.start("converting a[0].h5", 100, "showers")
    bars.advance(60, note="shard 2")
    raise KeyboardInterrupt


def test_work_that_failed_is_not_called_done(lines):
    said = lines(work_until_ctrl_c, fails=KeyboardInterrupt)
    assert said == ["converting a[0].h5: stopped after 60/100 showers, 0.0 s"]


def test_the_cursor_comes_back_after_ctrl_c(screen):
    shown = screen(work_until_ctrl_c, fails=KeyboardInterrupt)
    assert shown.has_cursor
    assert shown.shown == ["converting a[0].h5: stopped after 60/100 showers, 0.0 s"]


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_in_ci_and_on_a_dumb_terminal_there_is_no_live_line(monkeypatch, variable, value):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    stream = Terminal()
    with ProgressBars(stream) as bars:
        bars.start("converting", 10, "steps")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(("code", "end"), [(0, "8 iterations in"), (75, "stopped after 8/9")])
def test_a_process_that_ends_with_code_0_has_done_its_task(lines, code, end):
    def work(bars):
        bars.start("evolving", 9, "iterations")
        bars.advance(8)
        raise SystemExit(code)

    assert lines(work, fails=SystemExit)[-1].startswith(f"evolving: {end}")
