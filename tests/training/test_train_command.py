"""What `cloudgan train` promises, kept by the real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cloudgan.core import record
from cloudgan.run_folder import RunFolder

pytestmark = pytest.mark.tf
META = "meta.json"


def arrays(run, step):
    with np.load(RunFolder(run).checkpoints / f"step-{step:09d}.npz") as archive:
        return {name: archive[name] for name in archive.files if name != META}


def furthest(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "cloudgan", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        stdin=subprocess.DEVNULL,
    )


def wait_for(path, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def exact(tmp_path_factory, shards):
    """A run.yaml in float64 with synchronised batch norm and a global batch of 8."""
    path = tmp_path_factory.mktemp("exact") / "config.yaml"
    path.write_text(
        json.dumps(
            {
                "data": {"path": str(shards)},
                "model": {"preset": "smoke"},
                "training": {
                    "precision": "float64",
                    "batch_norm": "synchronized",
                    "global_batch_size": 8,
                    "max_steps": 4,
                    "validation_showers": 8,
                },
            }
        )
    )
    return path


@pytest.fixture(scope="module")
def one_replica(exact, run_cloudgan):
    """The weights after 4 steps of the custom loop on one replica."""
    run = exact.parent / "one"
    run_cloudgan("train", f"--config={exact}", f"--run={run}", "--strategy=one")
    return arrays(run, 4)


@pytest.mark.parametrize("loop", ["custom", "fit"])
@pytest.mark.parametrize(
    "where",
    [
        ("--strategy=one",),
        ("--strategy=mirrored", "--replicas=2"),
        ("--strategy=multiworker", "--workers=2"),
    ],
    ids=["1-replica", "2-replicas", "2-workers"],
)
def test_replicas_workers_and_loops_learn_the_same_to_1e_9(
    exact, one_replica, run_cloudgan, where, loop
):
    run = exact.parent / f"{loop}{where}"
    done = run_cloudgan(
        "train", f"--config={exact}", f"--run={run}", f"--loop={loop}", *where, "--json"
    )
    assert json.loads(done.stdout)["step"] == 4
    assert furthest(one_replica, arrays(run, 4)) <= 1e-9
    assert len([w for w in one_replica if w.startswith("generator/")]) > 5
    losses = record.read(RunFolder(run).record_file).epochs()[0].losses
    assert losses["generator"]["total"] > 0


def test_a_run_killed_in_the_middle_of_an_epoch_goes_on_to_the_same_bits(
    config_file, tmp_path, run_cloudgan
):
    config = config_file(batch_per_replica=8, checkpoint={"every_steps": 3, "keep": 9})
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    process = start("train", f"--config={config}", f"--run={killed}", "--max_steps=400")
    wait_for(RunFolder(killed).checkpoints / "step-000000006.npz", process)
    process.kill()
    process.communicate()
    saved = max(int(p.stem[5:]) for p in RunFolder(killed).checkpoints.glob("step-*.npz"))
    end = saved + 8
    run_cloudgan("train", f"--run={killed}", f"--max_steps={end}")
    run_cloudgan("train", f"--config={config}", f"--run={unbroken}", f"--max_steps={end}")
    theirs, ours = arrays(unbroken, end), arrays(killed, end)
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    lines = record.read(RunFolder(killed).record_file).lines
    resumed = [line for line in lines if isinstance(line, record.Resumed)]
    assert [line.step for line in resumed] == [saved]
    assert resumed[0].numbers_change == ()


def test_another_number_of_threads_is_told_and_recorded(config_file, tmp_path, run_cloudgan):
    config, run = config_file(batch_per_replica=8, threads=1), tmp_path / "run"
    run_cloudgan("train", f"--config={config}", f"--run={run}", "--max_steps=1")
    folder = RunFolder(run)
    changed = folder.read_config()
    folder.write_config(
        changed.model_copy(update={"training": changed.training.model_copy(update={"threads": 2})})
    )
    done = run_cloudgan("train", f"--run={run}", "--max_steps=2")
    assert "numbers change from here: threads: 1 -> 2" in done.stderr
    lines = record.read(folder.record_file).lines
    (resumed,) = [line for line in lines if isinstance(line, record.Resumed)]
    assert resumed.numbers_change == ("threads: 1 -> 2",)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_saves_and_ends_with_its_code_and_the_run_goes_on(
    config_file, tmp_path, run_cloudgan, number, code
):
    config, run = config_file(batch_per_replica=8, checkpoint={"every_steps": 2}), tmp_path / "run"
    process = start("train", f"--config={config}", f"--run={run}", "--max_steps=4000")
    wait_for(RunFolder(run).checkpoints / "step-000000002.npz", process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == code, out
    last = record.read(RunFolder(run).record_file).lines[-1]
    assert isinstance(last, record.Stopped)
    assert (RunFolder(run).checkpoints / f"step-{last.step:09d}.npz").exists()
    done = run_cloudgan("train", f"--run={run}", f"--max_steps={last.step + 1}", "--json")
    assert json.loads(done.stdout)["step"] == last.step + 1


def test_a_signal_before_the_first_step_ends_at_once(config_file, tmp_path):
    config, run = config_file(batch_per_replica=8), tmp_path / "run"
    process = start("train", f"--config={config}", f"--run={run}")
    wait_for(RunFolder(run).checkpoints / "step-000000000.npz", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 75


def test_when_a_worker_dies_the_others_stop_and_it_is_named(config_file, tmp_path):
    config, run = config_file(global_batch_size=8, checkpoint={"every_steps": 2}), tmp_path / "run"
    process = start(
        "train", f"--config={config}", f"--run={run}", "--workers=2", "--max_steps=100000"
    )
    wait_for(RunFolder(run).checkpoints / "step-000000002.npz", process)
    children = subprocess.run(
        ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(children) == 2
    os.kill(int(children[1]), signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "worker 1 of 2" in out
    assert "died with SIGKILL" in out
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(int(child), 0)


def test_a_worker_that_joined_by_tf_config_stops_when_another_dies_and_names_it(
    shards, tmp_path, free_ports
):
    run, peers = tmp_path / "run", [f"127.0.0.1:{port}" for port in free_ports(2)]
    flags = (f"--data={shards}", "--preset=smoke", f"--run={run}", "--global_batch=8")
    chief, other = (
        subprocess.Popen(
            [sys.executable, "-m", "cloudgan", "train", *flags, "--max_steps=100000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
            env=os.environ
            | {
                "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CONFIG": json.dumps(
                    {"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}}
                ),
            },
        )
        for index in range(2)
    )
    wait_for(RunFolder(run).record_file, chief)
    while len(record.read(RunFolder(run).record_file).epochs()) < 1:
        assert chief.poll() is None, chief.communicate()[0]
        time.sleep(0.1)
    other.kill()
    other.communicate()
    out, _ = chief.communicate(timeout=60)
    assert chief.returncode == 75, out  # a lost machine is nobody's mistake
    assert f"worker 1 ({peers[1]}) stopped answering" in out


def test_workers_stop_together_on_sigterm_and_can_go_on(config_file, tmp_path, run_cloudgan):
    config, run = config_file(global_batch_size=8, checkpoint={"every_steps": 2}), tmp_path / "run"
    process = start(
        "train", f"--config={config}", f"--run={run}", "--workers=2", "--max_steps=100000"
    )
    wait_for(RunFolder(run).checkpoints / "step-000000002.npz", process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 75, out
    last = record.read(RunFolder(run).record_file).lines[-1]
    assert isinstance(last, record.Stopped)
    assert last.reason == "terminated"
    done = run_cloudgan("train", f"--run={run}", f"--max_steps={last.step + 1}", "--json")
    assert json.loads(done.stdout)["step"] == last.step + 1


# A limit on the size of files makes the kernel refuse the write, as a full disk does.
_FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from cloudgan.cli.main import main
main(sys.argv[1:])
"""


def test_a_full_disk_while_checkpointing_keeps_the_last_good_checkpoint(
    config_file, tmp_path, run_cloudgan
):
    config, run = config_file(batch_per_replica=8), tmp_path / "run"
    run_cloudgan("train", f"--config={config}", f"--run={run}", "--max_steps=2")
    before = arrays(run, 2)
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, "train", f"--run={run}", "--max_steps=4"],
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "checkpoint not saved" in done.stderr
    assert "step-000000002.npz is whole" in done.stderr
    assert "Traceback" not in done.stderr
    assert furthest(before, arrays(run, 2)) == 0
    assert not list(RunFolder(run).checkpoints.glob("*.tmp"))
    done = run_cloudgan("train", f"--run={run}", "--max_steps=4", "--json")
    assert json.loads(done.stdout)["step"] == 4


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--data=absent.h5"], "absent.h5"),
        (["--preset=mimi", "--data=x.h5"], "Did you mean 'mini'"),
        (["--epoch=3"], "Did you mean '--epochs'"),
        ([], "no showers named"),
        (["--strategy=multiworker", "--data=x.h5"], "--workers=N"),
        (["--batch=2", "--global_batch=4", "--data=x.h5"], "alternatives"),
        (["--epochs=0", "--data=x.h5"], "training.epochs"),
    ],
)
def test_bad_input_gets_a_sentence_and_exit_2_and_makes_nothing(
    tmp_path, run_cloudgan, flags, said
):
    run = tmp_path / "run"
    done = run_cloudgan("train", f"--run={run}", *flags, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not run.exists()


def test_a_global_batch_that_replicas_do_not_divide_is_refused(config_file, tmp_path, run_cloudgan):
    config = config_file(global_batch_size=7, replicas=2)
    done = run_cloudgan("train", f"--config={config}", f"--run={tmp_path / 'run'}", check=False)
    assert done.returncode == 2
    assert "cannot be shared by 2 replicas; use --global_batch=6 or --global_batch=8" in done.stderr


def test_describe_prints_the_published_parameter_counts(run_cloudgan):
    done = run_cloudgan("train", "--preset=paper", "--describe", "--json")
    found = json.loads(done.stdout)
    assert found["generator"] == {"parameters": 1_365_047, "trainable": 1_364_983}
    assert found["discriminator"] == {"parameters": 87_402, "trainable": 87_354}


def test_gpus_that_tensorflow_cannot_use_are_told(config_file, tmp_path, run_cloudgan):
    """A program on the PATH answers as NVIDIA's does; TensorFlow itself finds no GPU here."""
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    driver.write_text("#!/bin/sh\necho 'NVIDIA V100, 16384'\n")
    driver.chmod(0o755)
    path = f"{driver.parent}:{os.environ['PATH']}"
    flags = (f"--config={config_file(batch_per_replica=8)}", "--max_steps=1")
    done = run_cloudgan(
        "train", *flags, f"--run={tmp_path / 'a'}", PATH=path, CUDA_VISIBLE_DEVICES=""
    )
    assert "1 x NVIDIA V100, but TensorFlow finds no GPU" in done.stderr
    hidden = run_cloudgan("train", *flags, f"--run={tmp_path / 'b'}", PATH=path)
    assert "finds no GPU" not in hidden.stderr
