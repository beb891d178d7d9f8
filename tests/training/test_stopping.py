"""Which signals request a stop, and which end the process at once."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys

from terminal import Screen

PROGRAM = """
import os, signal, time
from cloudgan.training.stopping import StopFlag

with StopFlag() as flag:
    flag.stepped = True
    flag.request("terminated")  # as when the agent closes the standard input
    for sent in (1, 2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5 if sent == 1 else 60)
        print(f"alive after {sent}", flush=True)
"""


def test_the_first_signal_after_a_request_of_the_parent_does_not_end_the_process():
    done = subprocess.run((sys.executable, "-c", PROGRAM), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (75, "alive after 1\n"), done.stderr


STOPPED_BEFORE_ITS_FIRST_STEP = """
import time
from cloudgan.cli.emit import progress_bars
from cloudgan.training.stopping import StopFlag

with progress_bars(as_json=False) as progress, StopFlag():
    progress.start("loading TensorFlow")
    time.sleep(600)
"""


def test_a_training_that_is_stopped_at_once_leaves_the_terminal_and_the_json_of_an_end():
    control, terminal = pty.openpty()
    with subprocess.Popen(
        (sys.executable, "-c", STOPPED_BEFORE_ITS_FIRST_STEP, "--json"),
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm"},
    ) as process:
        os.close(terminal)
        screen, said = Screen(), b""
        with contextlib.suppress(OSError):
            while more := os.read(control, 4096):
                shown = said.count(b"TensorFlow")
                said += more
                if shown < 2 <= said.count(b"TensorFlow"):  # the line was drawn, and drawn again
                    process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
    os.close(control)
    screen.write(said.decode())
    message = "stopped at once; run the same command again to go on"
    assert process.returncode == 130
    assert screen.live, "a line of progress was there"
    assert screen.has_cursor
    assert screen.shown == [f"cloudgan: {message}"]
    assert json.loads(printed) == {"error": message, "exit_code": 130}
