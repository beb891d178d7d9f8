"""A run that was killed or stopped by a signal resumes, in real processes of `cloudgan train`."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder, checkpoint_steps
from cloudgan.storage.store import open_store
from storage.servers import gcs_server

pytestmark = pytest.mark.tf
SIGNALS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (75, "terminated")}


def newest(run):
    """The step of the newest checkpoint; -1 without one."""
    found = RunFolder(run).checkpoints.glob("step-*.npz")
    return max((int(path.stem[5:]) for path in found), default=-1)


def test_a_run_that_was_interrupted_terminated_and_killed_goes_on_to_the_same_bits(
    config_file, tmp_path, run_cloudgan, start, same_bits
):
    config = config_file(plain=True, batch_per_replica=8, checkpoint={"every_steps": 3, "keep": 99})
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    began, saved = ("train", f"--config={config}", f"--run={broken}", "--max-steps=4000"), [0]
    for number in (*SIGNALS, signal.SIGKILL):
        process = start(*began, until=lambda due=saved[-1] + 6: newest(broken) >= due)
        began = ("train", f"--run={broken}", "--max-steps=4000")
        process.send_signal(number)
        out, _ = process.communicate(timeout=600)
        saved.append(newest(broken))
        if number in SIGNALS:
            last = record.read(RunFolder(broken).record_file).lines[-1]
            assert (process.returncode, last.reason) == SIGNALS[number], out
            assert last.step == saved[-1], "it saves before it ends"
    end = saved[-1] + 8
    run_cloudgan("train", f"--run={broken}", f"--max-steps={end}")
    run_cloudgan("train", f"--config={config}", f"--run={unbroken}", f"--max-steps={end}")
    same_bits(broken, unbroken, end)
    lines = record.read(RunFolder(broken).record_file).lines
    resumed = [line for line in lines if isinstance(line, record.Resumed)]
    assert [line.step for line in resumed] == saved[1:]
    assert not any(line.reproducibility_changes for line in resumed)


@pytest.fixture
def bucket(monkeypatch):
    """The URL of checkpoints in an empty bucket of a server on loopback."""
    storage = pytest.importorskip("google.cloud.storage")
    from google.auth.credentials import AnonymousCredentials

    with gcs_server() as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        login = AnonymousCredentials()
        storage.Client(project="test", credentials=login).create_bucket("lab")
        yield "gs://lab/run"


@pytest.mark.slow
def test_machines_that_are_lost_at_any_moment_leave_a_bucket_from_which_the_run_has_the_same_bits(
    config_file, run_cloudgan, start, same_bits, bucket
):
    """Each machine is killed some tenths of a second after its first new copy, and its folder is gone."""
    config = config_file(plain=True, batch_per_replica=8, checkpoint={"every_steps": 1})
    lost, unbroken, copies = config.parent / "lost", config.parent / "unbroken", open_store(bucket)

    def copied():
        return max(checkpoint_steps(copies.list("step-")), default=-1)

    train, before = ("train", f"--config={config}", f"--run={lost}", f"--checkpoints={bucket}"), 0
    for tenths in (0, 3, 6):
        process = start(*train, "--max-steps=4000", until=lambda due=before: copied() > due)
        time.sleep(tenths / 10)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=600)
        resumed = [
            line.step
            for line in record.read_if_whole(RunFolder(lost).record_file).lines
            if isinstance(line, record.Resumed)
        ]
        assert resumed == [before] * (tenths > 0), "it goes on from the newest copy"
        shutil.rmtree(lost)
        before = copied()
    end = before + 2
    run_cloudgan(*train, f"--max-steps={end}")
    run_cloudgan("train", f"--config={config}", f"--run={unbroken}", f"--max-steps={end}")
    same_bits(lost, unbroken, end)


def test_a_signal_before_the_first_step_ends_at_once(config_file, tmp_path, start):
    config, run = config_file(batch_per_replica=8), tmp_path / "run"
    first = RunFolder(run).checkpoints / "step-000000000.npz"
    process = start("train", f"--config={config}", f"--run={run}", until=first.exists)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=600)
    assert process.returncode == 75
    assert "run the same command again" in "".join(map(str, said))
    assert not list(tmp_path.rglob("*.tmp"))
