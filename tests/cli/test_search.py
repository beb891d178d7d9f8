"""`cloudgan search`: what it refuses before anything starts."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("optuna")


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "space.yaml"
    path.write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model.learnin_rate: {low: 1.0, high: 2.0}", "Did you mean 'model.learning_rate'"),
        ("model.learning_rate: {low: 2.0, high: 1.0}", "exchange them"),
        ("model.learning_rate: {low: 0, high: 1, log: true}", "log needs a low above 0"),
        ("[1, 2]", "space.yaml"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(space, cloudgan_here, text, said):
    space.write_text(text)
    done = cloudgan_here("search", space, "--preset=smoke", "--data=x.h5", exits=2)
    assert said in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_more_blocks_than_cores_are_refused(space, cloudgan_here):
    done = cloudgan_here("search", space, "--data=x.h5", "--blocks=4096", exits=2)
    assert "this machine has" in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_a_folder_that_holds_no_search_is_refused(space, cloudgan_here):
    done = cloudgan_here("search", space.parent, exits=2)
    assert "without search.json" in done.stderr
    done = cloudgan_here("search", space.parent, "--show", exits=2)
    assert "no search.json" in done.stderr


def test_the_trials_of_a_search_are_shown_and_other_settings_refused(space, cloudgan_here):
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.study import SearchFolder, SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=3)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for value in (0.4, 0.2):
        study.complete(study.ask().number, value)
    study.fail(study.ask().number, "no memory")
    said = json.loads(cloudgan_here("search", folder.path, "--show", "--json").stdout)
    assert said["best"] == 1
    assert [trial["state"] for trial in said["trials"]] == ["complete", "complete", "failed"]
    assert said["trials"][2]["reason"] == "no memory"
    table = cloudgan_here("search", folder.path, "--show").stdout
    assert "learning rate" in table
    assert "0001" in table
    done = cloudgan_here("search", folder.path, "--sampler=tpe", "--preset=mini", exits=2)
    assert "model.preset, sampler cannot be given" in done.stderr


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
def test_an_unknown_objective_is_refused(space, cloudgan_here, command):
    done = cloudgan_here(*command.split(), "--data=x.h5", "--objective=mertic", exits=2)
    assert "none of metric, response" in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_more_folds_than_a_study_can_hold_are_refused(space, cloudgan_here):
    assert "--folds" in cloudgan_here("crossvalidate", "--data=x.h5", "--folds=101", exits=2).stderr
    assert list(space.parent.iterdir()) == [space]


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
def test_missing_showers_are_refused_and_leave_no_folder(space, cloudgan_here, command):
    done = cloudgan_here(*command.split(), "--data=x.h5", exits=2)
    assert "x.h5 does not exist" in done.stderr
    assert list(space.parent.iterdir()) == [space]
