"""The startup script of a TPU VM; docker, metadata server and trainer are fakes.

The store is a server of Google's protocol, and rclone and pip are real.
"""

import contextlib
import gzip
import hashlib
import json
import zipfile
from contextlib import closing

import pytest

from cloudgan.schema.plan import Wheel
from emulators.gcp.refusal import Refusal
from launch.backends.tpu_vm.fake_vm import PREFIX, Bucket, FakeVm, queue
from launch.backends.tpu_vm.lab import planned, resolved, tpus
from storage.rclone import needs_rclone
from storage.servers import gcs_server
from waiting import until


@pytest.fixture(scope="module")
def objects():
    with gcs_server() as url:
        yield url


class Lab:
    """One TPU whose VM can boot."""

    def __init__(self, google, bucket, vm, plan):
        self.google, self.bucket, self.vm, self.plan = google, bucket, vm, plan

    def boot(self):
        self.vm.boot(self.plan.steps[-1].body)

    def end_at_once(self):
        """Removes the grace period after the deadline."""
        metadata = self.plan.steps[-1].body["tpu"]["nodeSpec"][0]["node"]["metadata"]
        script = metadata["startup-script"]
        assert "\ngrace_seconds=25\n" in script
        metadata["startup-script"] = script.replace("\ngrace_seconds=25\n", "\ngrace_seconds=0\n")

    def pass_the_deadline(self):
        (self.vm.home / "later").touch()

    def ended(self):
        self.vm.process.wait(30)
        return self.bucket.status(self.plan)


@pytest.fixture
def lab_of(objects, tmp_path):
    with contextlib.ExitStack() as stack:

        def opened(on_term="exit 75", folder="", **others):
            google = stack.enter_context(tpus())
            name = f"bucket-{tmp_path.name.replace('_', '-')[-40:].lower()}"
            bucket = Bucket(objects, name)
            made = resolved(planned(store=f"gs://{name}{folder}", **{"wheels": ()} | others))
            node = made.steps[-1].body["tpu"]["nodeSpec"][0]["node"]
            node["metadata"]["cloudgan-deadline-seconds"] = "3600"
            queue(google, made)
            vm = stack.enter_context(closing(FakeVm(tmp_path, objects, google, on_term=on_term)))
            return Lab(google, bucket, vm, made)

        yield opened


def tiny_wheel(folder):
    path = folder / "tiny-1.0-py3-none-any.whl"
    files = {
        "tiny.py": "SAID = 'the wheel is here'\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files["tiny-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return content, Wheel(file_name=path.name, sha256=digest, bytes=len(content))


@needs_rclone
def test_a_vm_installs_trains_uploads_its_log_and_deletes_the_tpu(lab_of, tmp_path):
    content, wheel = tiny_wheel(tmp_path)
    lab = lab_of(wheels=(wheel,))
    lab.bucket.put(f"wheels/{wheel.sha256}/{wheel.file_name}", content)
    lab.google.server.refuse("queuedResources.delete", Refusal(400, "It is busy"), times=2)
    lab.boot()
    until(lambda: len(lab.vm.workers()) == 2)
    assert lab.vm.workers() == ["worker gan 1 tpu=local", "the wheel is here"]
    assert lab.bucket.status(lab.plan)["phase"] == "training"
    lab.vm.order(0)
    status = lab.ended()
    assert (status["phase"], status["exit_code"], status["stop_reason"]) == ("ended", 0, "")
    assert status["deadline_seconds"] == 3600
    assert not lab.google.resources, "it retries until the TPU is gone"
    log = gzip.decompress(lab.bucket.read(f"{PREFIX}logs/0/startup-{status['booted_at']}.log.gz"))
    assert b"1 wheels" in log
    assert b"cloudgan-gan ended with 0" in log
    assert "--privileged --net=host" in lab.vm.containers()[0]
    assert "the-token" not in lab.vm.console()


@needs_rclone
def test_a_wheel_with_a_wrong_hash_ends_the_run_before_training(lab_of, tmp_path):
    content, wheel = tiny_wheel(tmp_path)
    lab = lab_of(wheels=(wheel,))
    lab.bucket.put(f"wheels/{wheel.sha256}/{wheel.file_name}", content[:-1] + b"x")
    lab.boot()
    status = lab.ended()
    assert (status["phase"], status["exit_code"]) == ("ended", 1)
    assert lab.vm.workers() == []
    assert not lab.google.resources


def test_a_folder_in_the_bucket_may_have_characters_that_urls_encode(lab_of):
    lab = lab_of(folder="/a+b & 5%25/x")
    within = f"a+b & 5%/x/{PREFIX}"
    lab.bucket.put(f"{within}stop")
    lab.boot()
    until(lab.vm.workers)
    lab.bucket.put(f"{within}stop")
    lab.vm.process.wait(30)
    name = lab.plan.node_pool.name
    assert f"{within}{name}.json" in lab.bucket.list("")
    assert json.loads(lab.bucket.read(f"{within}{name}.json"))["stop_reason"] == "stopped"


def test_a_worker_restarts_after_retriable_exit_codes_only(lab_of):
    lab = lab_of()
    lab.vm.order(75, 137, 1)
    lab.boot()
    assert lab.ended()["exit_code"] == 1
    assert len(lab.vm.workers()) == 3
    assert not lab.google.resources


@pytest.mark.parametrize("reason", ["preempted", "stopped"])
def test_a_stop_request_saves_a_checkpoint_and_deletes_the_tpu(lab_of, reason):
    lab = lab_of()
    lab.boot()
    until(lab.vm.workers)
    if reason == "preempted":
        lab.vm.known["preempted"] = "TRUE"
    else:
        lab.bucket.put(f"{PREFIX}stop")
    status = lab.ended()
    assert (status["phase"], status["exit_code"], status["stop_reason"]) == ("ended", 75, reason)
    assert len(lab.vm.workers()) == 1
    assert sum("kill --signal=TERM" in one for one in lab.vm.containers()) >= 1
    assert not lab.google.resources


def test_a_stop_file_of_a_previous_tpu_is_ignored(lab_of):
    lab = lab_of()
    lab.bucket.put(f"{PREFIX}stop")
    lab.vm.order(0)
    lab.boot()
    assert lab.ended()["exit_code"] == 0
    assert lab.bucket.read(f"{PREFIX}stop") is None


def test_the_deadline_leaves_the_worker_time_to_save(lab_of):
    lab = lab_of()
    lab.boot()
    until(lab.vm.workers)
    lab.pass_the_deadline()
    status = lab.ended()
    assert (status["exit_code"], status["stop_reason"]) == (75, "deadline")
    assert not lab.google.resources


def test_the_deadline_deletes_the_tpu_of_a_worker_that_ignores_the_signal(lab_of):
    lab = lab_of(on_term="")
    lab.end_at_once()
    lab.boot()
    until(lab.vm.workers)
    lab.pass_the_deadline()
    until(lambda: not lab.google.resources)
    assert lab.vm.process.poll() is None, "the worker still runs, on a machine that is gone"


def test_training_resumes_after_a_maintenance_reboot(lab_of):
    lab = lab_of()
    lab.boot()
    until(lab.vm.workers)
    before = lab.bucket.status(lab.plan)
    lab.vm.process.terminate()
    assert lab.vm.process.wait(30) == 0
    assert lab.google.resources, "the TPU stays"
    lab.vm.order(0)
    lab.boot()
    status = lab.ended()
    assert (status["exit_code"], status["booted_at"]) == (0, before["booted_at"]), (
        "its deadline stays"
    )
    assert len(lab.vm.workers()) == 2


@pytest.mark.slow
def test_a_private_image_is_pulled_with_the_vms_login(lab_of):
    lab = lab_of(workers={"image": "us-docker.pkg.dev/lab/gan:1"})
    lab.vm.order(0)
    lab.boot()
    assert lab.ended()["exit_code"] == 0
    first = lab.vm.containers()[0]
    assert first == "login -u oauth2accesstoken --password-stdin https://us-docker.pkg.dev"
