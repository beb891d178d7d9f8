"""Candidates in processes of their own: what they do wrong costs nobody but them."""

from __future__ import annotations

import os
import sys
import time

import pytest

from cloudgan.core.presets import PRESETS
from cloudgan.core.progress import Silent
from cloudgan.core.tuning import Choice
from cloudgan.training.race import ROUNDS, Probe, race

# Does what the instruction set is called, and leaves its process id in a folder.
CHILD = """
import json, os, pathlib, sys, time
told = json.loads(sys.argv[2])
does = told["choice"]["instructions"]
(pathlib.Path(sys.argv[1]) / str(os.getpid())).touch()
say = lambda what: print(what, flush=True)
say("some library says hello")
if does == "abort": os.abort()
if does == "hang": time.sleep(600)
if does == "leave": sys.exit(3)
say("cloudgan-probe ready")
for number, _ in enumerate(sys.stdin):
    if does == "abort later" and number == 1: os.abort()
    if does == "hang later" and number == 1: time.sleep(600)
    say("cloudgan-probe " + {"slow": "9.0", "default": "2.0"}.get(does, "1.0"))
"""


@pytest.fixture
def run(tmp_path):
    """Races choices called by what their processes do; returns their trials by that name."""

    def start(*does, seconds=20.0, progress=None):
        choices = [Choice(), *(Choice(instructions=what) for what in does)]
        probe = Probe(
            choice=choices[0],
            preset=PRESETS["smoke"],
            precision="float32",
            batch=2,
            most_seconds=seconds,
        )
        command = (sys.executable, "-c", CHILD, str(tmp_path))
        trials = race(choices, probe, progress or Silent(), command=command)
        return {trial.choice.instructions: trial for trial in trials}

    yield start
    assert not any(lives(int(path.name)) for path in tmp_path.iterdir())


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_candidate_is_measured_in_every_round(run):
    found = run("quick")
    assert found["default"].seconds == (2.0,) * ROUNDS
    assert found["quick"].seconds == (1.0,) * ROUNDS
    assert {trial.ended for trial in found.values()} == {""}


@pytest.mark.parametrize("when", ["abort", "abort later"])
def test_a_candidate_that_aborts_is_survived(run, when):
    found = run(when, "quick")
    assert found[when].ended == "died with SIGABRT"
    assert len(found["quick"].seconds) == len(found["default"].seconds) == ROUNDS


def test_a_candidate_that_leaves_is_survived(run):
    assert run("leave")["leave"].ended == "ended with code 3"


def test_a_candidate_that_hangs_at_its_start_costs_a_part_of_the_time_and_no_more(run):
    began = time.monotonic()
    found = run("hang", "quick", seconds=5.0)
    assert time.monotonic() - began < 30  # it would sleep for ten minutes
    assert found["hang"].ended == "not ready in time"
    assert found["quick"].seconds


def test_a_candidate_that_hangs_in_a_pass_is_ended(run, monkeypatch):
    monkeypatch.setattr("cloudgan.training.race._PATIENCE", 0.5)
    found = run("hang later", "quick")
    assert "no answer" in found["hang later"].ended
    assert len(found["quick"].seconds) == ROUNDS


def test_a_hopeless_candidate_is_given_up_after_a_round_but_never_the_default(run):
    found = run("slow", "quick")
    assert found["slow"].seconds == (9.0,)
    assert found["slow"].ended == "9.0 times slower than another"
    assert len(found["default"].seconds) == ROUNDS


class PressesCtrlC(Silent):
    def advance(self, amount=1, note=""):
        if note:  # of a pass: all processes run
            raise KeyboardInterrupt


def test_ctrl_c_leaves_no_process_behind(run):
    with pytest.raises(KeyboardInterrupt):
        run("quick", "hang later", progress=PressesCtrlC())


def test_a_program_that_cannot_be_started_leaves_no_process_behind(tmp_path):
    probe = Probe(
        choice=Choice(),
        preset=PRESETS["smoke"],
        precision="float32",
        batch=2,
        most_seconds=5.0,
    )
    with pytest.raises(OSError, match="absent"):
        race([Choice()], probe, Silent(), command=(str(tmp_path / "absent"),))


@pytest.mark.tf
def test_the_real_candidate_measures_its_own_networks():
    probe = Probe(
        choice=Choice(),
        preset=PRESETS["smoke"],
        precision="mixed",
        batch=2,
        most_seconds=200.0,
    )
    (trial,) = race([Choice(formulation="published", inter_threads=1)], probe, Silent())
    assert trial.ended == ""
    assert len(trial.seconds) == ROUNDS
    assert min(trial.seconds) > 0
