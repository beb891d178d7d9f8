"""A fake TPU VM on loopback: its metadata server, and a `docker` that runs local programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from emulators.http import Answer, Asked, HttpServer
from launch.backends.tpu_vm.lab import KNOWN
from storage.rclone import rclone_path

PREFIX = "runs/gan/"
# The image's python: a fake trainer that exits as ordered; otherwise the real interpreter.
PYTHON = """#!/bin/bash
[[ $1 == -m ]] || exec {python} "$@"
trap '{on_term}' TERM
echo "worker $CLOUDGAN_RUN $CLOUDGAN_WORLD tpu=$CLOUDGAN_TPU" >>{home}/workers
PYTHONPATH=$PYTHONPATH {python} -c 'import tiny; print(tiny.SAID)' 2>/dev/null >>{home}/workers
while [[ ! -s {home}/order ]]; do sleep 0.02; done
read -r code <{home}/order
sed -i 1d {home}/order
exit "$code"
"""
# Long sleeps end when the test sets the file `later`.
SLEEP = """#!/bin/bash
while (( ${{1%.*}} >= 1000 )) && [[ ! -e {home}/later ]]; do /bin/sleep 0.02; done
(( ${{1%.*}} >= 1000 )) || exec /bin/sleep "$1"
"""
DOCKER = '''\
#!{python}
"""Runs the command of `docker run` with the folders that it mounts; knows kill and login."""
import os, pathlib, signal, subprocess, sys
home = pathlib.Path({home!r})
verb, *rest = sys.argv[1:]
with (home / "docker").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if verb == "login":
    sys.exit(0 if sys.stdin.read().strip() == "the-token" else 1)
if verb == "kill":
    pid = home / rest[-1]
    if not pid.exists():
        sys.exit(1)
    os.kill(int(pid.read_text()), getattr(signal, "SIG" + rest[0].removeprefix("--signal=")))
    sys.exit(0)
environment, places, name = dict(os.environ), {{}}, ""
while rest and rest[0].startswith("-"):
    flag = rest.pop(0)
    if flag == "--name":
        name = rest.pop(0)
    elif flag == "-e":
        key, _, value = rest.pop(0).partition("=")
        environment[key] = value
    elif flag == "-v":
        here, inside, *_ = rest.pop(0).split(":")
        places[inside] = here
    elif flag.startswith("--entrypoint="):
        entrypoint = flag.partition("=")[2]
image, *command = rest
command = [entrypoint, *command]
def here(text):
    for inside, folder in places.items():
        text = text.replace(inside, folder)
    return text
environment = {{key: here(value) for key, value in environment.items()}}
command = [here(word) for word in command]
started = subprocess.Popen(command, env=environment)
(home / name).write_text(str(started.pid))
code = started.wait()
(home / name).unlink()
sys.exit(code if code >= 0 else 128 - code)
'''


def queue(google, plan):
    """Puts the queued resource of a plan where it is active already."""
    where = f"projects/{KNOWN['<project>']}/locations/{KNOWN['<zone>']}"
    name = f"{where}/queuedResources/{plan.node_pool.name}"
    google.resources[name] = plan.steps[-1].body | {"name": name}
    google._made[name] = 0
    google.server.tokens["the-token"] = None


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

    def list(self, prefix):
        at = urllib.parse.quote(prefix, safe="")
        found = json.loads(self._send(f"/storage/v1/b/{self.name}/o?prefix={at}"))
        return [one["name"] for one in found.get("items", ())]

    def status(self, plan):
        found = self.read(f"{PREFIX}{plan.node_pool.name}.json")
        return json.loads(found) if found else {}

    def _send(self, path, body=None):
        request = urllib.request.Request(self.url + path, body)  # noqa: S310  loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return answer.read()


class FakeVm:
    """The environment of a startup script.

    Attributes:
        known: Values of the metadata server, by path under ``instance/``.
    """

    def __init__(
        self, home: Path, store_url: str, google, *, python: str = PYTHON, on_term: str = "exit 75"
    ) -> None:
        self.home, self._store = home, store_url
        self._tpu, self._boots = f"{google.server.url}/tpu.googleapis.com", []
        self.known = {"service-accounts/default/token": '{"access_token": "the-token"}'}
        self._server = HttpServer(self._answer)
        (home / "bin").mkdir(parents=True)
        values = {"python": sys.executable, "home": str(home), "on_term": on_term}
        for name, text in {"docker": DOCKER, "python": python, "sleep": SLEEP}.items():
            self.program(name, text.format(**values))

    def program(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    @property
    def process(self) -> subprocess.Popen:
        """That of the last boot."""
        return self._boots[-1]

    def close(self) -> None:
        for process in self._boots:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._server.close()

    def order(self, *codes: int) -> None:
        """Lets the workers end with these codes, one after another."""
        (self.home / "order").write_text("".join(f"{code}\n" for code in codes))

    def workers(self) -> list[str]:
        path = self.home / "workers"
        return path.read_text().splitlines() if path.exists() else []

    def boot(self, body, **variables: str) -> None:
        """Runs the startup script of a request; `variables` are of its environment."""
        node = body["tpu"]["nodeSpec"][0]["node"]
        self.known |= {f"attributes/{key}": value for key, value in node["metadata"].items()}
        script = self.home / "startup-script"
        script.write_text(node["metadata"]["startup-script"])
        environment = {key: os.environ[key] for key in ("LANG", "HOME") if key in os.environ}
        port = self._server.port
        environment |= {
            "PATH": f"{self.home / 'bin'}:{rclone_path()}",
            "GCE_METADATA_HOST": f"127.0.0.1:{port}",
            "STORAGE_EMULATOR_HOST": self._store,
            "RCLONE_GCS_ENDPOINT": f"{self._store}/storage/v1/",
            "RCLONE_GCS_ANONYMOUS": "true",
            "CLOUDGAN_TPU_API": self._tpu,
            "CLOUDGAN_FOLDER": str(self.home / "var"),
            "CLOUDGAN_POLL_SECONDS": "0.05",
            "CLOUDGAN_PAUSE_SECONDS": "0.05",
            "CLOUDGAN_ENDING_SECONDS": "0",
        } | variables
        log = (self.home / "console").open("ab")
        with log:
            self._boots.append(
                subprocess.Popen(
                    ["bash", script],
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def console(self) -> str:
        return (self.home / "console").read_text()

    def containers(self) -> list[str]:
        path = self.home / "docker"
        return path.read_text().splitlines() if path.exists() else []

    def _answer(self, asked: Asked) -> Answer:
        content = self.known.get(asked.target.removeprefix("/computeMetadata/v1/instance/"))
        if content is None or asked.headers.get("Metadata-Flavor") != "Google":
            return Answer(404)
        return Answer(200, content)
