"""What a grid of cells refuses before anything is written."""

import pytest

import cloudgan as cg
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid
from cloudgan.core.errors import ConfigError
from cloudgan.schema.coevolution import CoevolutionConfig


@pytest.mark.tf
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "--task=showers, the default, needs --data=FILE, .* --task=ring needs none"),
        (
            {"task": "ring", "preset": "mini"},
            "--preset is an option of --task=showers, not of ring",
        ),
        (
            {"task": "ring", "data": "showers.h5"},
            "DATA is an option of --task=showers, not of ring",
        ),
        ({"task": "ring", "unit": "mev"}, "--unit is an option of --task=showers, not of ring"),
    ],
)
def test_a_task_without_what_it_needs_is_refused_before_a_folder_holds_the_run(
    tmp_path, options, expected
):
    with pytest.raises(ConfigError, match=expected):
        cg.evolve(run=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.tf
def test_other_threads_than_those_of_the_process_are_refused_before_a_folder_holds_the_run(
    tmp_path,
):
    import tensorflow as tf

    assert tf.constant(1) + 1 == 2  # TensorFlow has its threads now
    other = tf.config.threading.get_intra_op_parallelism_threads() + 7
    with pytest.raises(
        ConfigError, match=f"--threads={other}: .* give the same number, or restart"
    ):
        cg.evolve(task="ring", threads=other, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_option_is_refused_with_its_name(tmp_path):
    with pytest.raises(ConfigError, match="iteratons"):
        cg.evolve(task="ring", iteratons=2, run=tmp_path / "run")


@pytest.mark.tf
def test_the_values_of_a_start_that_failed_are_not_those_of_the_next_command(tmp_path):

    folder = GridFolder(tmp_path / "run")
    folder.write_config(CoevolutionConfig(task="ring", rows=2, columns=2, seed=9, batches=10**6))
    options = {"task": "ring", "grid": "1x2", "iterations": 1, "batches": 1, "score_samples": 20}
    cg.evolve(**options, run=folder.path)
    assert (folder.read_config().rows, folder.read_config().seed) == (1, 1)


@pytest.mark.tf
def test_a_grid_names_commands_that_work_and_refuses_fewer_iterations_than_it_has_done(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options = {"task": "ring", "grid": "1x2", "iterations": 2, "batches": 1, "score_samples": 20}
    found = cg.evolve(**options, run="runs/grid")
    commands = [line.split() for line, _ in found.view().commands]
    (_, _, run, output, cell), *_ = [words for words in commands if words[1] == "generate"]
    cg.generate(run, output, cell=cell.removeprefix("--cell="))
    before = (tmp_path / "runs/grid/coevolution.json").read_bytes()
    with pytest.raises(ConfigError, match=r"--iterations=1: .* have done 2; give more than 2"):
        cg.evolve(run="runs/grid", iterations=1)
    assert (tmp_path / "runs/grid/coevolution.json").read_bytes() == before


@pytest.mark.tf
def test_asynchronous_cells_are_not_asked_for_fewer_iterations_than_one_has_done(tmp_path):

    config = CoevolutionConfig(
        task="ring", rows=1, columns=2, engine="ranks", asynchronous=True, iterations=300
    )
    folder = GridFolder(tmp_path / "run", Grid(1, 2))
    for number, iteration in enumerate((112, 133)):  # where a signal stopped them
        cell = folder.cell(number).path
        cell.mkdir(parents=True)
        (cell / f"state-{iteration:09d}.npz").touch()
    folder.write_config(config)
    before = folder.config_file.read_bytes()
    with pytest.raises(
        ConfigError, match=r"--iterations=120: .* have done 133; give more than 133"
    ):
        cg.evolve(run=folder.path, iterations=120)
    assert folder.config_file.read_bytes() == before
