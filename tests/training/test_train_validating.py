"""Validation during training, in real processes of `cloudgan train`."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest

from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.training.checkpoint import read_checkpoint

pytestmark = pytest.mark.tf
META = "meta.json"


@pytest.fixture(scope="module")
def config(tmp_path_factory, write_config):
    """A run.yaml with 200 training showers, as many held-out ones, and two steps an epoch."""
    folder = tmp_path_factory.mktemp("validated")
    write_hdf5(folder / "showers.h5", simulate(400, seed=5, cells=(9, 9), block=50))
    convert(str(folder / "showers.h5"), folder / "store")
    path = write_config(
        folder / "config.yaml",
        plain=True,
        checkpoint={"keep": 9, "every_steps": 2},
        precision="float64",
        batch_norm="synchronized",
        global_batch_size=100,
        validation_showers=0,
        validate_every=1,
        epochs=3,
    )
    data = {"path": str(folder / "store"), "held_out_fraction": 0.5}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": data}))
    return path


@pytest.fixture(scope="module")
def unbroken(config, run_cloudgan):
    """A whole run of the custom loop."""
    run = config.parent / "unbroken"
    done = run_cloudgan("train", f"--config={config}", f"--run={run}", "--json")
    return run, json.loads(done.stdout)


def lines_of(run):
    return record.read(RunFolder(run).record_file).lines


def validations(run):
    found = record.read(RunFolder(run).record_file).validations()
    return [(each.step, each.metrics) for each in found]


def test_every_epoch_has_its_numbers_and_their_time_is_no_training(unbroken):
    run, said = unbroken
    lines = lines_of(run)
    found = [line for line in lines if line.kind == "validated"]
    epochs = [line for line in lines if line.kind == "epoch"]
    assert [(each.epoch, each.step, each.showers) for each in found] == [
        (0, 2, 200),
        (1, 4, 200),
        (2, 6, 200),
    ]
    for epoch, each in zip(epochs, found, strict=True):
        assert 0 < each.seconds <= epoch.validation_seconds
    stopped = lines[-1]
    assert stopped.train_seconds == pytest.approx(sum(epoch.train_seconds for epoch in epochs))
    best = min(found, key=lambda each: each.metrics["metric"])
    assert said["quality"]["best"] == {
        "step": best.step, "epoch": best.epoch, "metrics": best.metrics
    }  # fmt: skip
    assert said["quality"]["until"] is None


def test_the_best_is_found_by_its_name_and_generates(unbroken, tmp_path, cloudgan_here):
    run, said = unbroken
    out = tmp_path / "generated.h5"
    done = cloudgan_here("generate", run, out, "--showers=2", "--step=best", "--json")
    assert json.loads(done.stdout)["step"] == said["quality"]["best"]["step"]


def forget_to_look(path):
    """Makes a checkpoint like one that was saved before the validation of its generator."""
    state = read_checkpoint(path).state.model_copy(update={"best": None, "validated_step": 0})
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    buffer = io.BytesIO()
    meta = np.frombuffer(state.model_dump_json().encode(), np.uint8)
    np.savez(buffer, **arrays | {META: meta})
    path.write_bytes(buffer.getvalue())


def back_at_step_2(unbroken, run):
    """A copy of that run without what came after step 2, and without the validation of step 2."""
    shutil.copytree(unbroken[0], run)
    folder = RunFolder(run)
    for step in (4, 6):
        (folder.checkpoints / f"step-{step:09d}.npz").unlink()
    forget_to_look(folder.checkpoints / "step-000000002.npz")
    return folder


def test_two_replicas_of_fit_with_several_steps_a_call_learn_the_same(
    unbroken, tmp_path, run_cloudgan, learned_as
):
    run = back_at_step_2(unbroken, tmp_path / "replicas").path
    flags = ("--loop=fit", "--strategy=mirrored", "--replicas=2", "--steps-per-loop=2")
    run_cloudgan("train", f"--run={run}", *flags, "--epochs=2", "--validate-every=0")
    learned_as(run, unbroken[0])


@pytest.fixture
def learned_as(saved_arrays):
    """Compares the weights of two runs in float64 after step 4."""

    def compare(run, other):
        ours, theirs = saved_arrays(run, 4), saved_arrays(other, 4)
        assert ours.keys() == theirs.keys()
        assert len([name for name in ours if name.startswith("generator/")]) > 5
        assert max(np.abs(ours[name] - theirs[name]).max() for name in theirs) <= 1e-9

    return compare


def test_a_run_killed_during_validation_resumes_and_ends_where_the_uninterrupted_one_met_the_criterion(
    unbroken, tmp_path, run_cloudgan, learned_as
):
    """Resumes with the other loop and two workers, which share each validation and stop together."""
    before, after = (found["hits"] for _, found in validations(unbroken[0])[:2])
    until = f"hits{'<' if after < before else '>'}{(before + after) / 2!r}"
    folder = back_at_step_2(unbroken, tmp_path / "killed")
    run = folder.path
    texts = folder.record_file.read_text().splitlines(keepends=True)
    looked = next(row for row, text in enumerate(texts) if '"validated"' in text)
    folder.record_file.write_text("".join(texts[: looked + 1]))
    flags = ("--strategy=multiworker", "--workers=2", "--loop=fit", f"--until={until}")
    done = run_cloudgan("train", f"--run={run}", *flags, "--json")
    lines = lines_of(run)
    resumed = next(row for row, line in enumerate(lines) if line.kind == "resumed")
    looks = [line.step for line in lines[resumed:] if line.kind == "validated"]
    assert looks == [2, 4], "the saved generator that was not validated comes first"
    assert read_checkpoint(folder.checkpoints / "step-000000002.npz").state.best.step == 2
    found, of_one = validations(run), validations(unbroken[0])
    assert [step for step, _ in found] == [2, 4]
    assert found[0] == of_one[0], "two workers share a validation with the bits of one"
    assert found[1][1] == pytest.approx(of_one[1][1], rel=1e-5)
    learned_as(run, unbroken[0])
    said = json.loads(done.stdout)
    assert (said["ended"], said["step"]) == ("reached", 4)
    assert said["quality"]["best"]["step"] == 4
    assert (said["quality"]["until"], said["quality"]["reached"]) == (until, True)
    last = lines[-1]
    assert last.reason == "reached"
    assert " reached: the best is " in last.message
    other = (run / "logs" / "worker-1.log").read_text()
    said = json.loads(other[other.index("{") : other.rindex("}") + 1])
    assert (said["ended"], said["step"]) == ("reached", 4)


def test_a_run_that_does_not_improve_ends_early_and_stays_ended(unbroken, tmp_path, run_cloudgan):
    before, after = (found["hits"] for _, found in validations(unbroken[0])[:2])
    never = "hits>9" if after < before else "hits<-9"  # by which the second epoch is worse
    run = back_at_step_2(unbroken, tmp_path / "early").path
    flags = (f"--until={never}", "--patience=1", "--json")
    for _ in range(2):
        done = run_cloudgan("train", f"--run={run}", *flags)
        said = json.loads(done.stdout)
        assert (said["ended"], said["step"]) == ("plateau", 4)
    last = [line for line in lines_of(run) if line.kind == "validated"][-1]
    assert (last.step, last.plateau, last.smoothed) == (4, True, last.metrics["hits"])
    assert "no improvement of hits in 1 validations" in lines_of(run)[-1].message


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--validate-every=1"], "9 of 90 are held out"),
        (["--until=metric<1"], "--until needs at least 200"),
    ],
)
def test_what_cannot_be_validated_is_refused_before_anything_starts(
    store, tmp_path, cloudgan_here, flags, said
):
    run = tmp_path / "run"
    flags = ("--preset=smoke", f"--data={store}", f"--run={run}", *flags)
    assert said in cloudgan_here("train", *flags, exits=2).stderr
    assert not run.exists()
