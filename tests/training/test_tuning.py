"""How a process comes to compute as it does: asked, gone on with, remembered, found, or default."""

from __future__ import annotations

import sys

import pytest

from cloudgan.core import settings, tuning
from cloudgan.core.config import parse_config
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Hardware
from cloudgan.core.record import Numerics
from cloudgan.core.tuning import Choice, Trial
from cloudgan.training.job import Job
from cloudgan.training.tuning import MOST_SECONDS, Tuner, handed_on, other_form

BEST = Choice(inter_threads=1)
MANY = 124_987


class Told:
    """A progress that remembers what it was told."""

    def __init__(self):
        self.lines = []

    def start(self, task, total=None, unit=""):
        pass

    def advance(self, amount=1, note=""):
        pass

    def say(self, line):
        self.lines.append(line)


class Races:
    """Lets a choice win, and remembers between whom there was a race."""

    def __init__(self, best=BEST, *, died=""):
        self.held = []
        self._best, self._died = best, died

    def __call__(self, choices, probe, progress):
        self.held.append((choices, probe))
        return tuple(
            Trial(choice=one, seconds=() if self._died else (1.0 + (one != self._best),) * 3)
            if one != choices[0]
            else Trial(choice=one, seconds=() if self._died else (2.0,) * 3, ended=self._died)
            for one in choices
        )


@pytest.fixture(autouse=True)
def before_tensorflow(monkeypatch):
    """The process as it is before TensorFlow is imported, and two cores without AVX-512."""
    for name in (tuning.INSTRUCTIONS_VARIABLE, "DNNL_MAX_CPU_ISA", tuning.XLA_VARIABLE):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    pretend(monkeypatch, "avx2")


def pretend(monkeypatch, *features):
    monkeypatch.setattr("cloudgan.training.tuning.cpu_features", lambda: frozenset(features))
    monkeypatch.setattr("cloudgan.training.tuning.physical_cores", lambda: 2)
    monkeypatch.setattr("cloudgan.models.formulation.find_spec", lambda name: None)
    machine = Hardware(processor="EPYC", cores=2, memory_gib=24.0)
    monkeypatch.setattr("cloudgan.training.tuning.this_machine", lambda: machine)


def job(preset="paper", *, saved=None, showers=MANY, is_alone=True, **training):
    config = parse_config({"model": {"preset": preset}, "training": training}, "a test")
    return Job(config, saved, showers, is_alone=is_alone)


@pytest.fixture
def decide(tmp_path):
    """Decides; returns the choice, what was told, and the races that were held."""

    def run(what, races=None):
        told, races = Told(), races or Races()
        decided = Tuner(told, data_folder=tmp_path, run_race=races).decide(what)
        assert decided.told in {"", *told.lines}
        return decided.choice, " / ".join(told.lines), races.held

    return run


def test_a_long_run_finds_out_once_and_remembers(decide):
    choice, told, held = decide(job())
    assert choice == BEST
    assert "1 operation at a time: 2.00 times as fast as the default" in told
    assert "kept in" in told
    (choices, probe), *more = held
    assert not more
    assert choices[0] == Choice()
    assert (probe.batch, probe.preset.preset, probe.most_seconds) == (1, "paper", MOST_SECONDS)
    choice, told, held = decide(job())
    assert (choice, held) == (BEST, [])
    assert told.startswith("tuned: usual kernels, 1 operation at a time (cached, 20")


@pytest.mark.parametrize(
    "short",
    [
        {"preset": "mini", "showers": 5000},
        {
            "preset": "mini",
            "showers": 5000,
            "epochs": 1000,
            "max_steps": 2000,
            "max_seconds": 180.0,
        },
        {"preset": "smoke", "showers": 5000, "epochs": 100},
        {"max_steps": 20},
        {"max_seconds": 600.0},
        {"showers": 50, "epochs": 2},
    ],
)
def test_a_run_of_minutes_is_not_kept_waiting(decide, short):
    assert decide(job(**short)) == (Choice(), "", [])


def test_finding_out_takes_at_most_a_few_percent_of_the_run(decide):
    what = job(max_steps=50, batch_per_replica=100)  # 5000 showers of 0.4 s on two cores
    _, _, ((_, probe),) = decide(what)
    assert probe.most_seconds == pytest.approx(0.03 * 1000)


def test_where_nothing_is_faster_the_default_stays_and_is_remembered(decide):
    choice, told, _ = decide(job(), Races(Choice()))
    assert choice == Choice()
    assert "tuned: usual kernels: none of 2 others is faster" in told
    assert decide(job())[2] == []


def numerics(**others):
    known = {
        "processor": "x",
        "device": "CPU",
        "threads": 3,
        "replicas": 1,
        "workers": 1,
        "global_batch_size": 8,
        "precision": "float32",
        "kernels": "oneDNN",
        "tensorflow": "2.21.0",
        "keras": "3.15.1",
    }
    return Numerics(**known | others)


def test_a_run_goes_on_as_its_checkpoint_says_whatever_was_found_since(decide):
    decide(job())
    saved = numerics(formulation="published", instructions="AVX2")
    choice, told, held = decide(job(saved=saved))
    assert choice == Choice(formulation="published", instructions="AVX2", threads=3)
    assert (told, held) == ("", [])
    assert settings.variable("ONEDNN_MAX_CPU_ISA") == "AVX2"  # before TensorFlow reads it


def test_a_form_that_this_version_does_not_know_gives_way_to_the_usual_one(decide):
    choice, _, _ = decide(job(saved=numerics(formulation="other")))
    assert choice == Choice(threads=3)


def test_a_flag_is_stronger_than_the_checkpoint(decide):
    saved = numerics(formulation="published", inter_threads=1)
    choice, _, _ = decide(job(saved=saved, kernels="fast", threads=2))
    assert choice == Choice(threads=2)


def test_what_the_environment_says_stands_and_is_not_up_for_choice(decide, monkeypatch):
    pretend(monkeypatch, "avx2", "avx512f")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX")
    choice, _, ((choices, _),) = decide(job(), Races(Choice(instructions="AVX", inter_threads=1)))
    assert {one.instructions for one in choices} == {"AVX"}
    assert choice == Choice(instructions="AVX", inter_threads=1)
    assert settings.variable("ONEDNN_MAX_CPU_ISA") == "AVX"


def test_what_was_found_is_set_before_tensorflow_reads_it(decide, monkeypatch):
    pretend(monkeypatch, "avx2", "avx512f")
    decide(job(), Races(Choice(instructions="AVX2")))
    assert settings.variable("ONEDNN_MAX_CPU_ISA") == "AVX2"


def test_off_means_off(decide):
    decide(job())
    assert decide(job(tune="off")) == (Choice(), "", [])


def test_one_of_several_workers_takes_what_it_is_handed_and_never_looks_for_itself(
    decide, tmp_path, monkeypatch
):
    decide(job())
    assert decide(job(is_alone=False)) == (Choice(), "", [])
    found = Tuner(Told(), data_folder=tmp_path).remembered(job())
    best = found.model_copy(update={"choice": Choice(formulation="published", inter_threads=1)})
    monkeypatch.setenv("CLOUDGAN_TUNED", handed_on(best))
    choice, told, held = decide(job(is_alone=False))
    assert choice == Choice(formulation="published")  # workers share the cores in their own way
    assert (told, held) == ("tuned: published kernels (cached, for all workers)", [])
    assert handed_on(None) is None


def test_what_is_handed_over_must_be_a_choice(decide, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TUNED", "yes")
    with pytest.raises(ConfigError, match="unset it"):
        decide(job(is_alone=False))


def test_a_damaged_memory_is_told_and_made_anew(decide, tmp_path):
    decide(job())
    (path,) = (tmp_path / "tuning").iterdir()
    path.write_text("{")
    _, told, held = decide(job())
    assert "is damaged" in told
    assert len(held) == 1
    assert decide(job())[2] == []


def test_a_default_that_could_not_be_measured_is_used_all_the_same_and_not_remembered(decide):
    choice, told, _ = decide(job(), Races(died="died with SIGKILL"))
    assert choice == Choice()
    assert "not tuned" in told
    assert "died with SIGKILL" in told
    assert len(decide(job())[2]) == 1


def test_a_data_folder_that_cannot_be_written_costs_the_memory_only(decide, tmp_path):
    (tmp_path / "tuning").write_text("a file")
    choice, told, _ = decide(job())
    assert choice == BEST
    assert "not kept" in told


def test_once_tensorflow_runs_nothing_is_tried(decide, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    assert decide(job()) == (Choice(), "", [])


def test_a_tpu_is_not_shared_by_candidates(decide, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    assert decide(job()) == (Choice(), "", [])


@pytest.mark.parametrize(
    ("preset", "other"), [("paper", "phases"), ("mini", "transforms"), ("smoke", "transforms")]
)
def test_the_form_that_is_not_usual_can_be_tried_where_there_is_a_compiler(
    monkeypatch, preset, other
):
    assert other_form(job(preset).config) is None
    monkeypatch.setattr("cloudgan.models.formulation.find_spec", lambda name: True)
    assert other_form(job(preset).config) == other
    assert other_form(job(preset, precision="bfloat16").config) is None
    assert other_form(job(preset, kernels="published").config) is None


def test_the_form_that_is_not_usual_takes_part_in_the_race(decide, monkeypatch):
    monkeypatch.setattr("cloudgan.models.formulation.find_spec", lambda name: True)
    choice, told, ((choices, _),) = decide(job(), Races(Choice(formulation="phases")))
    assert choice == Choice(formulation="phases")
    assert "tuned: phase kernels" in told
    assert [one.formulation for one in choices] == [None, "published", "phases", None]
