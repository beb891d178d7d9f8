"""The measurements themselves, as small as they can be, on the real training step and program."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf

PLAIN = {"generator_updates": 1, "optimizer": "rmsprop", "dropout": 0.0}


def test_two_forms_of_a_step_are_measured_in_turns(run_cloudgan, tmp_path):
    picture = tmp_path / "roof.png"
    flags = ("--preset=smoke", "--batch=4", "--rounds=2", f"--roofline={picture}", "--json")
    done = run_cloudgan("bench", "step", *flags)
    said = json.loads(done.stdout)
    assert done.stderr == ""
    assert said["ratio"]["count"] == said["rounds"] == 2
    assert 0 < said["ratio"]["min"] <= said["ratio"]["median"] <= said["ratio"]["max"]
    own, other = said["variants"]
    assert (own["formulation"], other["formulation"]) == ("phases", "published")
    assert own["global_batch"] == other["global_batch"] == 4
    assert own["seconds_per_step"]["min"] > 0
    # The same weights, showers and draws: whatever the form, the first step's loss is the same.
    assert own["first_loss"] == pytest.approx(other["first_loss"], rel=1e-5)
    assert 0 < said["share_of_direct_limit"]["median"] < 1
    assert len(said["layers"]) == 15
    assert all(one["seconds"] > 0 for one in said["layers"])
    assert picture.stat().st_size > 10_000


def test_a_generator_is_measured_beside_what_simulates_the_same_electrons(run_cloudgan):
    flags = ("--preset=smoke", "--rounds=1", "--batch=16", "--energy=2:4", "--json")
    said = json.loads(run_cloudgan("bench", "generate", *flags).stdout)
    generator, parametric, *geant4 = said["sources"]
    assert (said["cells"], said["energy_gev"]) == ([9, 9, 25], [2, 4])
    assert generator["showers_per_round"] % 16 == 0
    for other in (parametric, *geant4):
        assert said["ratio"][other["name"]]["median"] == pytest.approx(
            generator["showers_per_second"]["median"] / other["showers_per_second"]["median"]
        )
    assert [one["name"] for one in geant4] == ([] if said["left_out"] else ["Geant4"])
    if find_spec("geant4_pybind"):
        assert "is missing" not in said["left_out"]


def test_a_whole_run_of_the_program_says_what_it_took(tmp_path):
    from cloudgan.bench.scaling import BASE, make_configs
    from cloudgan.bench.train_program import make_showers, run_train

    shards = make_showers(tmp_path, 50, (9, 9))
    asked = {"preset": "smoke", "batch": 8, "steps": 15, "kernels": "published"}
    config = make_configs("strong", [BASE], **asked)[BASE]
    plain = config.model.model_copy(update=PLAIN)
    data = config.data.model_copy(update={"path": str(shards)})
    took = run_train(config.model_copy(update={"model": plain, "data": data}), tmp_path / "round")
    assert took.showers == 15 * 8
    assert took.device == "CPU"
    assert 0 < took.first_call_seconds < took.program_seconds
    assert took.startup_seconds < took.program_seconds
    trained = took.showers / took.steady_showers_per_second
    assert trained < took.program_seconds - took.startup_seconds
    assert took.cpu_seconds > 0
