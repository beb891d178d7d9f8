"""Which signals request a stop, and which end the process at once."""

from __future__ import annotations

import subprocess
import sys

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
