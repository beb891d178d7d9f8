from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.providers.slurm.commands import NEEDED, Commands, RefusedError


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    return write


def test_a_machine_without_slurm_is_told_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"sbatch, squeue.*log in to a machine of the cluster"):
        Commands().require()
    with pytest.raises(ConfigError, match="log in"):
        Commands().run("squeue")


def test_programs_that_are_there_are_enough(program):
    for name in NEEDED:
        program(name, "")
    Commands().require()


def test_times_are_asked_for_in_utc(program, monkeypatch):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    program("squeue", 'echo "$TZ $SLURM_TIME_FORMAT"')
    assert Commands().run("squeue") == "UTC \n"


def test_a_refusal_is_told_in_slurms_words_without_its_programs_names(program):
    said = (
        "sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job failed"
    )
    program("sbatch", f'echo "{said}" >&2; exit 1')
    with pytest.raises(
        RefusedError, match=r"^Memory specification can not be satisfied; Batch job"
    ):
        Commands().run("sbatch")


def test_a_controller_that_is_away_is_waited_for_and_that_is_said_once(program):
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    tries = "[ -e third ] && echo here && exit; [ -e second ] && touch third; touch second"
    program("squeue", f'{tries}; echo "{away}" >&2; exit 1')
    said = []
    assert Commands(said.append, pause_seconds=0.01).run("squeue") == "here\n"
    assert len(said) == 1
    assert "waiting for it" in said[0]


def test_a_controller_that_stays_away_is_given_up(program):
    program("squeue", 'echo "error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(LaunchError, match="its jobs go on without it"):
        Commands(patience_seconds=0.05, pause_seconds=0.01).run("squeue")
