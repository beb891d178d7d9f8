"""`--watch`: a result that is shown again and again."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from cloudgan.cli.views import watch as views
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.reports.result import Result, View

PROGRAM = """
from cloudgan.cli.main import main
from cloudgan.cli.views.watch import watch
from cloudgan.launch.operations import runs
from cloudgan.cli.emit import emit
watch(runs.status, lambda found: emit(found, as_json=False), 1.0)
"""


class Count(Result):
    number: int

    def view(self):
        return View(f"number {self.number}")


def watched(monkeypatch, capsys, answers):
    """What is printed while `refresh` gives these answers, and then Ctrl-C comes."""
    left = iter(answers)

    def refresh():
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return Count(number=answer)

    monkeypatch.setattr(views.time, "sleep", lambda seconds: None)
    views.watch(refresh, lambda found: print(found.view().line), 2.0)
    return capsys.readouterr().out


def test_in_a_pipe_each_refresh_is_a_block_of_its_own(monkeypatch, capsys):
    said = watched(monkeypatch, capsys, [1, 2, KeyboardInterrupt()])
    assert "\x1b" not in said
    blocks = said.strip().split("\n\n")
    assert [block.splitlines()[1] for block in blocks] == ["number 1", "number 2"]
    assert "every 2 s; Ctrl-C ends this" in blocks[0]


def test_an_error_of_a_later_refresh_is_shown_and_the_next_one_may_succeed(monkeypatch, capsys):
    said = watched(monkeypatch, capsys, [1, LaunchError("no answer"), 3, KeyboardInterrupt()])
    assert ["cloudgan: no answer" in said, "number 3" in said] == [True, True]
    with pytest.raises(LaunchError):
        watched(monkeypatch, capsys, [LaunchError("no answer")])


def test_a_pause_of_no_time_is_refused(monkeypatch, capsys):
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="--watch"):
            views.watch(lambda: Count(number=1), print, seconds)


def test_on_a_terminal_the_screen_is_drawn_in_place_and_ctrl_c_ends_it_with_0(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, cwd=tmp_path)
    os.close(theirs)
    said, deadline = b"", time.monotonic() + 60
    while said.count(b"\x1b[H\x1b[J") < 3 and time.monotonic() < deadline:
        if select.select([ours], [], [], 0.5)[0]:
            said += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    os.close(ours)
    assert said.count(b"no run in runs/") >= 2
