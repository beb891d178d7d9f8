"""`cloudgan train` in real processes, also with the weights of another run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cloudgan.api.training_result import training_result
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.money.processes import record_warnings
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.checkpoint import find_warm_start
from cloudgan.training.stopping import Outcome

pytestmark = pytest.mark.tf


def lines_of(run):
    return record.read(RunFolder(run).record_file).lines


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A PATH on which a program answers as NVIDIA's does; TensorFlow itself finds no GPU here."""
    program = tmp_path_factory.mktemp("driver") / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA V100, 16384'\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


class Resumed(NamedTuple):
    """A run of two steps that was resumed twice, for a step each: its folder, and what the two said."""

    run: Path
    first: str
    second: str


@pytest.fixture(scope="module")
def resumed(two_steps, tmp_path_factory, driver, run_cloudgan):
    """Tracked by a double of W&B, then by TensorBoard; in the form of its start, then in another and with
    other threads."""
    run = shutil.copytree(two_steps / "run", tmp_path_factory.mktemp("resumed") / "run")
    trackers = {
        "PYTHONPATH": str(Path(__file__).parent.parent / "trackers"),
        "TRACKED": str(run.parent / "tracked.json"),
        "WANDB_API_KEY": "planted-word",
        "CUDA_VISIBLE_DEVICES": "",
    }
    flags = ("train", f"--run={run}", "--max-steps=3", "--track=wandb", "--conv-impl=auto")
    first = run_cloudgan(*flags, fork=False, PATH=driver, **trackers)
    config = RunFolder(run).read_config()
    training = config.training.model_copy(update={"threads": 2})
    RunFolder(run).write_config(config.model_copy(update={"training": training}))
    flags = ("train", f"--run={run}", "--max-steps=4", "--track=tensorboard", "--conv-impl=phases")
    return Resumed(run, first.stderr, run_cloudgan(*flags, PATH=driver).stderr)


def test_a_run_is_tracked_and_a_resume_can_have_another_tracker(resumed):
    import tensorflow as tf

    (sent,) = json.loads((resumed.run.parent / "tracked.json").read_text()).values()
    assert sent["ends"] == ["RUNNING", "FINISHED"]
    (path,) = (resumed.run / "tensorboard").iterdir()
    events = list(tf.compat.v1.train.summary_iterator(str(path)))[1:]
    shown = {one.tag: one.simple_value for one in events[0].summary.value}
    before, last = (
        line for line in lines_of(resumed.run) if line.kind == "epoch" and line.step > 2
    )
    assert sent["log"][0]["train/generator/total"] == before.losses["generator"]["total"]
    assert shown["train/generator/total"] == pytest.approx(last.losses["generator"]["total"])
    assert [one.step for one in events] == [4, 4]
    assert b"planted-word" not in b"".join(
        path.read_bytes() for path in resumed.run.rglob("*") if path.is_file()
    )


def test_a_resume_keeps_its_conv_impl_or_reports_what_changes_and_names_gpus_that_cannot_be_used(
    resumed,
):
    assert "1 x NVIDIA V100, but TensorFlow finds no GPU" in resumed.first
    assert "numbers change from here" not in resumed.first
    assert "finds no GPU" not in resumed.second, "CUDA_VISIBLE_DEVICES hides it"
    (said,) = [line for line in resumed.second.splitlines() if "numbers change from here: " in line]
    changes = ("threads: 1 -> 2", "conv_impl: published -> phases")
    assert all(change in said for change in changes)
    lines = lines_of(resumed.run)
    found = [line.reproducibility_changes for line in lines if line.kind == "resumed"]
    assert [sorted(each) for each in found] == [[], sorted(changes)]
    started = [line.numerics.conv_impl for line in lines if line.kind == "started"]
    assert started == ["published", "published", "phases"]


def test_a_new_process_shows_no_messages_of_the_libraries(two_steps):
    said = (two_steps / "stderr.txt").read_text()
    assert "smoke" in said.splitlines()[0]
    assert "oneDNN" not in said
    assert "absl" not in said


def test_the_expected_memory_is_within_a_quarter_of_the_peak(two_steps):
    """The margin is for other systems and versions: `benchmarks/memory.py` finds a tenth here."""
    lines = record.read(RunFolder(two_steps / "run").record_file).lines
    started = next(line for line in lines if isinstance(line, record.Started))
    stopped = next(line for line in lines if isinstance(line, record.Stopped))
    assert started.expected_memory_bytes == pytest.approx(stopped.peak_memory_bytes, rel=0.25)


def test_weights_that_are_not_finite_are_left_for_the_checkpoint_before(begun, run_cloudgan):
    newest = RunFolder(begun).checkpoints / "step-000000002.npz"
    with np.load(newest) as archive:
        kept = {name: archive[name] for name in archive.files}
    name = next(name for name in kept if name.startswith("generator/"))
    np.savez(newest, **kept | {name: np.full_like(kept[name], np.nan)})
    done = run_cloudgan("train", f"--run={begun}")
    assert "checkpoint not used: " in done.stderr
    assert "are NaN or infinite" in done.stderr
    (damaged,) = [line for line in lines_of(begun) if line.kind == "damaged"]
    assert damaged.path.endswith("step-000000002.npz.damaged")
    (resumed,) = [line for line in lines_of(begun) if line.kind == "resumed"]
    assert resumed.step == 0
    (warning,) = record_warnings(record.read(RunFolder(begun).record_file))
    assert warning.startswith("the checkpoint of step 2 was not used")


def test_a_full_disk_while_checkpointing_keeps_the_last_good_checkpoint(
    begun, two_steps, start, same_bits
):
    process = start("train", f"--run={begun}", "--max-steps=4")
    # A limit on the size of files makes the kernel refuse the write, as a full disk does; Python
    # ignores the signal that comes with it.
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 1, said
    assert "checkpoint not saved" in said
    assert "step-000000002.npz is complete" in said
    assert "Traceback" not in said
    same_bits(begun, two_steps / "run", 2)
    assert not list(RunFolder(begun).checkpoints.glob("*.tmp"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--batch=16000000"], "the largest batch that fits is"),
        (
            ["--global-batch=7", "--replicas=2"],
            "2 replicas do not divide a global batch of 7; use --global-batch=6 or --global-batch=8",
        ),
    ],
)
def test_a_batch_that_cannot_be_is_refused_with_one_that_can_and_makes_nothing(
    tmp_path, cloudgan_here, store, flags, said
):
    run = tmp_path / "run"
    flags = (f"--run={run}", "--preset=smoke", f"--data={store}", *flags)
    assert said in cloudgan_here("train", *flags, exits=2).stderr
    assert not run.exists()


@pytest.fixture(scope="module")
def short(write_config, tmp_path_factory, run_cloudgan):
    """What a run of two epochs of 81 showers says, and its folder."""
    folder = tmp_path_factory.mktemp("short")
    config = write_config(folder / "config.yaml", plain=True, batch_per_replica=27, epochs=2)
    with contextlib.chdir(folder):
        done = run_cloudgan("train", f"--config={config}", "--run=runs/short", CI="1")
    return done, folder / "runs" / "short"


def test_the_first_line_says_what_is_trained_and_the_first_steps_how_long_it_takes(short):
    said = short[0].stderr.splitlines()
    assert said[0] == "smoke, 2 epochs of 81 showers"
    (timed,) = [line for line in said if " on this machine" in line]
    assert re.fullmatch(r"about \S+ s on this machine", timed)


def test_the_end_is_one_screen_in_units_with_the_next_commands(short):
    done, run = short
    line, losses, *commands = done.stdout.splitlines()
    time = r"in [\d.]+ s"
    assert re.fullmatch(
        rf"✓ short: 2 epochs, 6 steps {time} \(smoke, 81 showers, 9 held out\)", line
    )
    assert re.fullmatch(
        r"  loss of the generator \S+ → \S+ +peak memory [\d.]+ of [\d.]+ GiB", losses
    )
    assert [command.split("  ")[1] for command in commands] == [
        "cloudgan validate short --against=FILE --report=short.html",
        "cloudgan export short exports/short",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert not (run / "report.html").exists(), "a page would take longer than this training"


def test_a_finished_run_shows_no_epoch_after_its_last(short, tmp_path, run_cloudgan):
    done, run = short
    again = run_cloudgan("train", f"--run={shutil.copytree(run, tmp_path / 'run')}", CI="1")
    shown = [
        [line[:8] for line in one.stderr.splitlines() if line.startswith("epoch")]
        for one in (done, again)
    ]
    assert shown == [["epoch  1", "epoch  2"], []]


def test_the_result_as_json_has_every_number_of_the_screen_and_more(short, run_cloudgan):
    run = short[1]
    flags = (f"--run={run}", "--epochs=3", "--json", "--no-report")
    said = json.loads(run_cloudgan("train", *flags).stdout)
    epochs = [line for line in lines_of(run) if line.kind == "epoch"]
    assert (said["preset"], said["ended"], said["step"], said["epoch"]) == (
        "smoke",
        "finished",
        9,
        3,
    )
    assert (said["training_showers"], said["held_out_showers"]) == (81, 9)
    assert said["first_generator_loss"] == epochs[0].losses["generator"]["total"]
    assert said["last_generator_loss"] == epochs[-1].losses["generator"]["total"]
    assert said["peak_memory_bytes"] == lines_of(run)[-1].peak_memory_bytes
    assert set(said["memory"]) == {
        *("peak_bytes", "relative_error", "processes", "peak_bytes_by_batch", "free_bytes"),
        "largest_batch",
    }
    assert said["quality"] is said["report"] is None


def test_a_last_batch_of_several_epochs_adds_none_to_those_that_were_asked_for(tmp_path):
    config = parse_config({"name": "mine", "training": {"epochs": 60}}, "a test")
    outcome = Outcome(
        reason="finished", step=14, epoch=64, train_seconds=1.0, checkpoint=tmp_path / "step-14.npz"
    )
    assert training_result(outcome, RunFolder(tmp_path), config).epoch == 60


def test_describe_prints_the_published_parameter_counts(cloudgan_here):
    done = cloudgan_here("train", "--preset=paper", "--describe", "--json")
    found = json.loads(done.stdout)
    screen = cloudgan_here("train", "--preset=paper", "--describe").stdout.splitlines()
    assert screen[0] == "paper: 51x51x25 cells, 60 epochs; nothing was started"
    assert len(screen) <= 24
    assert max(map(len, screen)) <= 80
    assert found["generator"] == {"parameters": 1_365_047, "trainable": 1_364_983}
    assert found["discriminator"] == {"parameters": 87_402, "trainable": 87_354}


def test_describe_prints_the_networks_of_another_shape(cloudgan_here):
    flags = ("--preset=paper", "--image-shape=45x16x9", "--describe")
    first = json.loads(cloudgan_here("train", *flags, "--json").stdout)["layers"][0]
    assert (first["cells"], first["upsample"], first["kernel"]) == ([8, 3, 5], [6, 6, 6], [6, 5, 6])
    shown = " ".join(cloudgan_here("train", *flags).stdout.split())
    assert "generator 8x3x5 6x6x6 6x5x6 43x14x25" in shown


def asking(folder, **model):
    config = RunConfig.model_validate(RunFolder(folder / "run").read_config().model_dump())
    training = TrainingConfig(init_from=str(folder / "run"))
    changed = config.model.model_copy(update=model)
    return config.model_copy(update={"training": training, "model": changed})


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "nothing" / "checkpoints").mkdir(parents=True)
    config = RunConfig(training=TrainingConfig(init_from=str(tmp_path / "nothing")))
    with pytest.raises(DataError, match=r"--init-from=.*nothing: no checkpoint"):
        find_warm_start(config)


def test_losses_and_rates_may_differ_and_networks_may_not(two_steps):
    found = find_warm_start(asking(two_steps, learning_rate=1e-4, loss_weights={"shape": 3.0}))
    assert found.path.name == "step-000000002.npz"
    with pytest.raises(ConfigError, match="networks is smoke, here mini"):
        find_warm_start(asking(two_steps, networks=find_preset("mini").networks))
    with pytest.raises(ConfigError, match=r"ema_decay is 0\.99, here 0\.0"):
        find_warm_start(asking(two_steps, ema_decay=0.0))


def test_the_first_checkpoint_holds_what_the_other_run_learned(
    two_steps, tmp_path, run_cloudgan, saved_arrays
):
    config, run = two_steps / "config.yaml", tmp_path / "b"
    flags = (f"--config={config}", f"--run={run}", f"--init-from={two_steps / 'run'}")
    run_cloudgan("train", *flags, "--max-steps=1")
    learned, begun = saved_arrays(two_steps / "run", 2), saved_arrays(run, 0)
    for name in learned:
        np.testing.assert_array_equal(begun[name], learned[name], err_msg=name)
    after = saved_arrays(run, 1)
    assert any(np.any(after[name] != begun[name]) for name in after)


def test_a_folder_that_is_none_starts_nothing(two_steps, tmp_path, cloudgan_here):
    run = tmp_path / "c"
    flags = (f"--config={two_steps / 'config.yaml'}", f"--run={run}", "--init-from=nothing")
    done = cloudgan_here("train", *flags, exits=2)
    assert "there is no run nothing" in done.stderr
    assert not run.exists()
