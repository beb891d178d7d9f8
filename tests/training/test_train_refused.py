"""What a refused `train` leaves: nothing that was there before is changed, nothing blocks the corrected command."""

from __future__ import annotations

import hashlib

import pytest

from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate

pytestmark = pytest.mark.tf


def listing(folder):
    return {
        str(path.relative_to(folder)): path.is_file()
        and hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("run", ["run", "new"])
def test_checkpoints_are_not_copied_to_the_store_of_another_run(two_steps, cloudgan_here, run):
    before = listing(two_steps)
    said = cloudgan_here(
        *("train", f"--config={two_steps / 'config.yaml'}", f"--run={two_steps / run}2"),
        *("--seed=9", f"--checkpoints={two_steps / 'run' / 'checkpoints'}"),
        exits=2,
    )
    assert "run/checkpoints holds the checkpoints of another run" in said.stderr
    assert "training.seed: 9, 0" in said.stderr
    assert listing(two_steps) == before


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_is_refused_with_the_command_that_installs_it(
    two_steps, cloudgan_here, name
):
    before = listing(two_steps)
    config, run = two_steps / "config.yaml", two_steps / "new"
    said = cloudgan_here("train", f"--config={config}", f"--run={run}", f"--track={name}", exits=2)
    assert f"needs the package '{name}', which is not installed; run `pip" in said.stderr
    assert f"'.[{name}]'" in said.stderr
    assert listing(two_steps) == before


def test_a_run_whose_record_was_deleted_keeps_its_checkpoints(begun, tmp_path, cloudgan_here):
    (begun / "record.jsonl").unlink()
    before = listing(tmp_path)
    said = cloudgan_here("train", f"--run={begun}", "--seed=9", exits=2)
    assert "holds another run" in said.stderr
    assert listing(tmp_path) == before


def test_another_preset_is_refused_with_one_sentence_and_the_ways_out(begun, cloudgan_here):
    said = cloudgan_here("train", f"--run={begun}", "--preset=mini", exits=2).stderr
    assert said == (
        f"cloudgan: {begun} holds a run of the preset smoke, and the preset asked for is mini. Omit --preset to"
        f" resume it, or give another folder, such as --run={begun}-mini\n"
    )


def test_a_run_refused_after_its_start_keeps_every_file(begun, tmp_path, run_cloudgan):
    """Another global batch is found when the devices are known, after run.yaml was written."""
    before = listing(tmp_path)
    done = run_cloudgan("train", f"--run={begun}", "--replicas=2", "--max-steps=9", check=False)
    assert done.returncode == 2, done.stderr
    assert listing(tmp_path) == before


def test_showers_that_do_not_fit_the_preset_are_refused_with_the_flag_that_trains_on_them_and_leave_no_folder(
    tmp_path, run_cloudgan
):
    write_hdf5(tmp_path / "x.h5", simulate(90, seed=5, cells=(9, 9)))
    flags = (f"--data={tmp_path / 'x.h5'}", f"--run={tmp_path / 'runs' / 'new'}")
    done = run_cloudgan("train", "--preset=mini", *flags, check=False)
    assert done.returncode == 2, done.stderr
    assert "add --image-shape=9x9x25" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5"]


def test_a_run_that_failed_at_its_start_does_not_block_the_corrected_command(
    begun, two_steps, run_cloudgan
):
    folder = RunFolder(begun)
    for step in folder.saved_steps()[1:]:
        (folder.checkpoints / f"step-{step:09d}.npz").unlink()
    assert folder.saved_steps() == [0]
    began = [line for line in record.read(folder.record_file).lines if line.step == 0]
    folder.record_file.unlink()
    for line in began:
        record.append(folder.record_file, line)
    flags = (f"--config={two_steps / 'config.yaml'}", f"--run={folder.path}", "--seed=9")
    run_cloudgan("train", *flags, "--max-steps=1")
    assert folder.read_config().training.seed == 9
    assert record.read(folder.record_file).lines[-1].step == 1
