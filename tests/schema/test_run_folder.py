import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.options.showers import DemoOptions
from cloudgan.schema.options.training import TrainOptions
from cloudgan.schema.run_folder import RunFolder
from records import epoch, started, stopped, write_run


def config(**training):
    return parse_config({"name": "a", "data": {"path": "x.h5"}, "training": training}, "x")


def trained(folder):
    record.append(folder.record_file, stopped(4))


@pytest.mark.parametrize(
    ("before", "asked", "said"),
    [
        (
            {"epochs": 3},
            {"epochs": 2},
            "--epochs=2: .* has trained 3 epochs. .* give --epochs=3 or",
        ),
        ({"epochs": 3}, {"epochs": 9, "max_steps": 29}, "--max-steps=29: .* has trained 30 steps"),
        ({"epochs": 3}, {"epochs": 3}, ""),
        ({"epochs": 3}, {"epochs": 3, "max_steps": 30}, ""),
        ({"epochs": 9}, {"epochs": 4}, ""),
        ({"epochs": 2}, {"epochs": 2}, ""),
    ],
    ids=["epochs", "steps", "the same", "the same steps", "fewer, not yet trained", "of a whole"],
)
def test_fewer_epochs_or_steps_than_were_trained_are_refused(tmp_path, before, asked, said):
    folder = RunFolder(tmp_path)
    write_run(tmp_path, started(), *map(epoch, range(3)), stopped(30))
    folder.write_config(config(**before))
    if not said:
        folder.check(config(**asked))
        return
    with pytest.raises(ConfigError, match=said):
        folder.check(config(**asked))


def test_what_was_trained_after_the_newest_checkpoint_may_be_trained_again(tmp_path):
    folder = RunFolder(tmp_path)
    write_run(tmp_path, started(), *map(epoch, range(3)), stopped(30))
    folder.write_config(config(epochs=3))
    folder.checkpoints.mkdir()
    (folder.checkpoints / "step-000000010.npz").touch()
    folder.check(config(epochs=2))
    (folder.checkpoints / "step-000000030.npz").touch()
    with pytest.raises(ConfigError, match="has trained 3 epochs"):
        folder.check(config(epochs=2))


def test_a_folder_of_another_run_is_refused_with_what_differs(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_config(config(seed=1))
    folder.check(config(seed=2))  # no step was trained
    trained(folder)
    folder.check(config(seed=1, epochs=99))
    with pytest.raises(ConfigError, match=r"training.seed: 2, 1.*another --run"):
        folder.check(config(seed=2))


def fail(folder, *, writes):
    with folder.locked():
        if writes:
            folder.config_file.touch()
        raise OSError("it fails")


@pytest.mark.parametrize(
    ("exists", "writes", "left"),
    [
        (False, False, []),
        (False, True, ["group", "group/mine", "group/mine/run.yaml"]),
        (True, False, ["group", "group/mine"]),
    ],
)
def test_a_run_that_fails_before_it_wrote_a_file_leaves_no_new_folder(
    tmp_path, exists, writes, left
):
    runs = tmp_path / "runs"
    runs.mkdir()
    folder = RunFolder(runs / "group" / "mine")
    if exists:
        folder.create()
    with pytest.raises(OSError, match="it fails"):
        fail(folder, writes=writes)
    assert sorted(str(path.relative_to(runs)) for path in runs.rglob("*")) == left


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("mine", "runs/mine"),
        ("./mine", "./mine"),
        ("runs/mine", "runs/mine"),
        ("/big/mine", "/big/mine"),
        ("old", "old"),  # a run of an earlier command
        ("..", ".."),
    ],
)
def test_a_name_to_write_is_the_run_that_other_commands_find_by_it(
    given, written, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old" / "checkpoints").mkdir(parents=True)
    (tmp_path / "mine").mkdir()  # no run
    assert TrainOptions(run=given).run == written
    assert DemoOptions(run=given).run == written
