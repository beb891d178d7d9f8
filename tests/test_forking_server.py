"""A forked program ends, prints and sees its environment and folder as one that a user starts."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from forking_server import ForkedProgram

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


@pytest.mark.parametrize("words", [("--version",), ("train", "--epoch=3"), ("cost", "nothing")])
def test_a_forked_program_exits_and_prints_as_a_started_one(
    words, tmp_path, monkeypatch, run_cloudgan
):
    monkeypatch.chdir(tmp_path)
    started, forked = (run_cloudgan(*words, check=False, fork=fork) for fork in (False, True))
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


def test_a_forked_program_runs_in_the_folder_of_its_test(tmp_path, monkeypatch, run_cloudgan):
    monkeypatch.chdir(tmp_path)
    run_cloudgan("simulate", "here.h5", "--showers=1")
    assert (tmp_path / "here.h5").exists()


def test_a_signal_ends_a_forked_program_and_close_leaves_none(tmp_path):
    words = ["simulate", str(tmp_path / "many.h5"), "--showers=1000000"]
    with contextlib.closing(ForkedProgram(words, dict(os.environ))) as program:
        assert program.poll() is None
        program.send_signal(signal.SIGKILL)
        program.communicate(timeout=600)
        assert program.returncode == -signal.SIGKILL
    with contextlib.closing(ForkedProgram(words, dict(os.environ))) as program:
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(program.pid, 0)
