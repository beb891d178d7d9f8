"""The startup script of a TPU's machine, run for real; only docker, metadata and trainer are doubles.

The store is a real server of Google's protocol, and what installs wheels is what does it on a TPU.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

import pytest

from cloudgan.core.plan import Wheel
from google_cloud.refusal import Refusal
from providers.gcp.machine import Machine
from providers.gcp.tpu_lab import KNOWN, planned, resolved, tpus
from stores.servers import gcs_server

# As the image's: one that trains as it is ordered to, and else the real one.
PYTHON = """#!/bin/bash
[[ $1 == -m ]] || exec {python} "$@"
trap '{on_term}' TERM
echo "worker $CLOUDGAN_RUN $CLOUDGAN_WORLD tpu=$CLOUDGAN_TPU" >>{home}/began
PYTHONPATH=$PYTHONPATH {python} -c 'import tiny; print(tiny.SAID)' 2>/dev/null >>{home}/began
while [[ ! -s {home}/order ]]; do sleep 0.02; done
read -r code <{home}/order
sed -i 1d {home}/order
exit "$code"
"""
# Hours pass when the test says so.
SLEEP = """#!/bin/bash
while (( ${{1%.*}} >= 1000 )) && [[ ! -e {home}/later ]]; do /bin/sleep 0.02; done
(( ${{1%.*}} >= 1000 )) || exec /bin/sleep "$1"
"""
PREFIX = "runs/gan/"


@pytest.fixture(scope="module")
def objects():
    with gcs_server() as url:
        yield url


class Bucket:
    """The run's folder in the store."""

    def __init__(self, url, name):
        self.url, self.name = url, name
        self._send("/storage/v1/b?project=lab", json.dumps({"name": name}).encode())

    def put(self, name, content=b""):
        at = urllib.parse.quote(name, safe="")
        self._send(f"/upload/storage/v1/b/{self.name}/o?uploadType=media&name={at}", content)

    def read(self, name):
        at = urllib.parse.quote(name, safe="")
        try:
            return self._send(f"/storage/v1/b/{self.name}/o/{at}?alt=media")
        except urllib.error.HTTPError:
            return None

    def note(self, plan):
        found = self.read(f"{PREFIX}{plan.rental.pool}.json")
        return json.loads(found) if found else {}

    def _send(self, path, body=None):
        request = urllib.request.Request(self.url + path, body)  # noqa: S310  loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return answer.read()


class Lab:
    """One TPU whose machine can be switched on."""

    def __init__(self, google, bucket, machine, plan):
        self.google, self.bucket, self.machine, self.plan = google, bucket, machine, plan
        self.boots = []

    @property
    def process(self):
        return self.boots[-1]

    def boot(self):
        self.boots.append(self.machine.boot(self.plan.steps[-1].body))

    def end(self):
        for process in self.boots:
            end(process)

    def end_at_once(self):
        """Lets the machine have no patience once its time is over."""
        metadata = self.plan.steps[-1].body["tpu"]["nodeSpec"][0]["node"]["metadata"]
        script = metadata["startup-script"]
        assert "\ngrace_seconds=25\n" in script
        metadata["startup-script"] = script.replace("\ngrace_seconds=25\n", "\ngrace_seconds=0\n")

    def pass_the_deadline(self):
        (self.machine.home / "later").touch()

    def order(self, *codes):
        text = "".join(f"{code}\n" for code in codes)
        (self.machine.home / "order").write_text(text)

    def began(self):
        path = self.machine.home / "began"
        return path.read_text().splitlines() if path.exists() else []

    def until(self, found):
        end = time.monotonic() + 30
        while not found():
            assert time.monotonic() < end, self.machine.console()
            time.sleep(0.02)

    def ended(self):
        self.process.wait(30)
        return self.bucket.note(self.plan)


@pytest.fixture
def lab_of(objects, tmp_path):
    with contextlib.ExitStack() as stack:

        def opened(on_term="exit 75", *, node_type="v3-8", **others):
            google = stack.enter_context(tpus())
            google.server.tokens["the-token"] = None
            name = f"bucket-{tmp_path.name.replace('_', '-')[-40:].lower()}"
            bucket = Bucket(objects, name)
            made = resolved(planned(node_type, store=f"gs://{name}", **{"wheels": ()} | others))
            node = made.steps[-1].body["tpu"]["nodeSpec"][0]["node"]
            node["metadata"]["cloudgan-deadline-seconds"] = "3600"
            full = f"projects/{KNOWN['<project>']}/locations/{KNOWN['<zone>']}/queuedResources/"
            google.resources[full + made.rental.pool] = made.steps[-1].body | {
                "name": full + made.rental.pool
            }
            google._made[full + made.rental.pool] = 0
            machine = Machine(tmp_path, objects, f"{google.server.url}/tpu.googleapis.com")
            values = {"python": sys.executable, "home": tmp_path, "on_term": on_term}
            machine.program("python", PYTHON.format(**values))
            machine.program("sleep", SLEEP.format(**values))
            stack.enter_context(machine.on())
            lab = Lab(google, bucket, machine, made)
            stack.callback(lab.end)
            return lab

        yield opened


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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


def test_a_machine_installs_trains_ships_its_log_and_gives_the_tpu_back(lab_of, tmp_path):
    content, wheel = tiny_wheel(tmp_path)
    lab = lab_of(wheels=(wheel,))
    lab.bucket.put(f"wheels/{wheel.sha256}/{wheel.file_name}", content)
    lab.google.server.refuse("queuedResources.delete", Refusal(400, "It is busy"), times=2)
    lab.boot()
    lab.until(lambda: len(lab.began()) == 2)
    assert lab.began() == ["worker gan 1 tpu=local", "the wheel is here"]
    assert lab.bucket.note(lab.plan)["phase"] == "training"
    lab.order(0)
    note = lab.ended()
    assert (note["phase"], note["exit_code"], note["told"]) == ("ended", 0, "")
    assert note["deadline_seconds"] == 3600
    assert not lab.google.resources, "it asked again until it was gone"
    log = gzip.decompress(lab.bucket.read(f"{PREFIX}logs/0/startup-{note['began']}.log.gz"))
    assert b"1 wheels" in log
    assert b"cloudgan-gan ended with 0" in log
    assert "--privileged --net=host" in lab.machine.containers()[0]
    assert "the-token" not in lab.machine.console()


def test_a_wheel_that_is_not_what_its_hash_says_ends_it_before_it_trains(lab_of, tmp_path):
    content, wheel = tiny_wheel(tmp_path)
    lab = lab_of(wheels=(wheel,))
    lab.bucket.put(f"wheels/{wheel.sha256}/{wheel.file_name}", content[:-1] + b"x")
    lab.boot()
    note = lab.ended()
    assert (note["phase"], note["exit_code"]) == ("ended", 1)
    assert lab.began() == []
    assert not lab.google.resources


def test_a_worker_that_lost_something_is_started_again_and_one_that_failed_is_not(lab_of):
    lab = lab_of()
    lab.order(75, 137, 1)
    lab.boot()
    assert lab.ended()["exit_code"] == 1
    assert len(lab.began()) == 3
    assert not lab.google.resources


@pytest.mark.parametrize("told", ["preempted", "stopped"])
def test_who_is_told_to_end_saves_and_gives_the_tpu_back(lab_of, told):
    lab = lab_of()
    lab.boot()
    lab.until(lab.began)
    if told == "preempted":
        lab.machine.known["preempted"] = "TRUE"
    else:
        lab.bucket.put(f"{PREFIX}stop")
    note = lab.ended()
    assert (note["phase"], note["exit_code"], note["told"]) == ("ended", 75, told)
    assert len(lab.began()) == 1
    assert sum("kill --signal=TERM" in one for one in lab.machine.containers()) >= 1
    assert not lab.google.resources


def test_a_stop_that_was_meant_for_other_machines_stops_nothing(lab_of):
    lab = lab_of()
    lab.bucket.put(f"{PREFIX}stop")
    lab.order(0)
    lab.boot()
    assert lab.ended()["exit_code"] == 0
    assert lab.bucket.read(f"{PREFIX}stop") is None


def test_the_deadline_ends_a_worker_with_time_to_save(lab_of):
    lab = lab_of()
    lab.boot()
    lab.until(lab.began)
    lab.pass_the_deadline()
    note = lab.ended()
    assert (note["exit_code"], note["told"]) == (75, "deadline")
    assert not lab.google.resources


def test_the_deadline_deletes_a_machine_whose_worker_does_not_obey(lab_of):
    lab = lab_of(on_term="")
    lab.end_at_once()
    lab.boot()
    lab.until(lab.began)
    lab.pass_the_deadline()
    lab.until(lambda: not lab.google.resources)
    assert lab.process.poll() is None, "the worker still runs, on a machine that is gone"


def test_a_machine_that_goes_down_for_maintenance_goes_on_after_its_next_boot(lab_of):
    lab = lab_of()
    lab.boot()
    lab.until(lab.began)
    before = lab.bucket.note(lab.plan)
    lab.process.terminate()
    assert lab.process.wait(30) == 0
    assert lab.google.resources, "nothing was given back"
    lab.order(0)
    lab.boot()
    note = lab.ended()
    assert (note["exit_code"], note["began"]) == (0, before["began"]), "its time goes on"
    assert len(lab.began()) == 2


def test_an_own_image_is_pulled_with_the_machines_login(lab_of):
    lab = lab_of(workers={"image": "us-docker.pkg.dev/lab/gan:1"})
    lab.order(0)
    lab.boot()
    assert lab.ended()["exit_code"] == 0
    first = lab.machine.containers()[0]
    assert first == "login -u oauth2accesstoken --password-stdin https://us-docker.pkg.dev"
