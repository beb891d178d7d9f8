"""The real control plane with the interface of the double (`emulators.kubernetes.Cluster`).

One control plane serves one test: it is ready in 4 to 7 s, as long as the deletion of a namespace takes. A fault
that it cannot make skips the test with the reason.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import urllib3
import yaml

from emulators.kubernetes.containers import Image, claim_folder
from emulators.kubernetes.objects import KINDS

BUILD = Path(__file__).parent / "build.sh"
MOST_SECONDS, POLL_SECONDS = 60.0, 0.1
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def built(program="realcluster"):
    """Returns the path of a program of `make cluster`; skips a test where it was not built, or not by root."""
    if os.geteuid():
        pytest.skip("pods of the real control plane have mount namespaces, which need root")
    found = subprocess.run([BUILD, "--find", program], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"{program} of the real control plane is not built; run `make cluster`")
    return found.stdout.strip()


class RealCluster:
    """A running cluster; see `emulators.kubernetes.Cluster` for what its methods mean."""

    def __init__(self, root, images, program):
        self.root, self._images = root, {"busybox:1": Image()} if images is None else images
        self._file, self._is_away = root / "images.json", False
        self._write()
        self._program, self._users = program, 0
        ready = json.loads(program.stdout.readline())
        self.url, self._admin = ready["server"], ready["token"]
        (there,) = yaml.safe_load(Path(ready["kubeconfig"]).read_text())["clusters"]
        self.ca = root / "ca.crt"
        self.ca.write_bytes(base64.b64decode(there["cluster"]["certificate-authority-data"]))
        self._http = urllib3.PoolManager(ca_certs=str(self.ca))

    def close(self):
        self._http.clear()
        self._program.stdin.close()
        self._program.wait(20)

    def _write(self):
        known = {
            name: {
                "Programs": dict(one.programs),
                "Env": dict(one.env),
                "Appended": dict(one.appended),
            }
            for name, one in self._images.items()
        }
        self._file.write_text(json.dumps({"Away": self._is_away, "Images": known}))

    def _order(self, **order):
        self._program.stdin.write(json.dumps(order) + "\n")
        self._program.stdin.flush()
        error = json.loads(self._program.stdout.readline())["error"]
        assert not error, error

    def _ask(self, method, path, body=None, *, patch="strategic-merge-patch"):
        kind = f"application/{patch}+json" if method == "PATCH" else "application/json"
        kind = "application/yaml" if isinstance(body, str) else kind
        headers = {"Authorization": f"Bearer {self._admin}", "Content-Type": kind}
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        answer = self._http.request(method, self.url + path, body=content, headers=headers)
        if answer.status == 404 and method == "GET":
            return None
        assert answer.status < 300, answer.data
        return answer.json()

    def _path(self, kind, namespace, name=""):
        kind = KINDS[kind] if isinstance(kind, str) else kind
        place = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
        root = "/apis" if kind.group else "/api"
        return f"{root}/{kind.api_version}{place}/{kind.plural}" + (f"/{name}" if name else "")

    # Objects and logins.

    def find(self, kind, namespace, name):
        return self._ask("GET", self._path(kind, namespace, name))

    def select(self, kind, namespace=None):
        return (self._ask("GET", self._path(kind, namespace)) or {"items": []})["items"]

    def put(self, kind, found):
        kind = KINDS[kind] if isinstance(kind, str) else kind
        found = {"apiVersion": kind.api_version, "kind": kind.kind} | found
        self._ask("POST", self._path(kind, found["metadata"].get("namespace")), found)

    def wait_for(self, holds, seconds=MOST_SECONDS):
        end = time.monotonic() + max(seconds, MOST_SECONDS)
        while not (found := holds()):
            if time.monotonic() > end:
                pods = [(one["metadata"]["name"], one["status"]) for one in self.select("pods")]
                raise TimeoutError(f"waited in vain; pods: {pods}")
            time.sleep(POLL_SECONDS)
        return found

    def claim_folder(self, namespace, name):
        """Gives the claim a volume: a folder of this machine."""
        folder = claim_folder(self.root, namespace, name)
        folder.mkdir(parents=True)
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]}
        spec |= {
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": name},
        }
        volume = {"metadata": {"name": f"{namespace}-{name}"}, "spec": spec}
        self._ask("POST", "/api/v1/persistentvolumes", volume)
        claims = "persistentvolumeclaims"
        self.wait_for(lambda: self.find(claims, namespace, name)["status"]["phase"] == "Bound")
        return folder

    def token(self, rules=None, seconds=None):
        """Makes a ServiceAccount with the roles that are given, and a token for it."""
        if seconds is not None:
            pytest.skip("the real API server issues no token for less than ten minutes")
        if rules is None:
            return self._admin
        self._users += 1
        name = f"user-{self._users}"
        accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
        self._ask("POST", accounts, {"metadata": {"name": name}})
        for number, role in enumerate(rules):
            kind = role.get("kind", "ClusterRole")
            own = role["metadata"] | {"name": f"{name}-{number}"} if "kind" in role else {}
            own = own or {"name": f"{name}-{number}"}
            place = (
                f"{RBAC}/namespaces/{own['namespace']}/" if kind == "Role" else f"{RBAC}/cluster"
            )
            rolled = {"metadata": own, "rules": role.get("rules", [role])}
            self._ask("POST", f"{place}roles", rolled)
            subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
            reference = {"kind": kind, "name": own["name"], "apiGroup": RBAC.split("/")[2]}
            binding = {"metadata": own, "subjects": [subject], "roleRef": reference}
            self._ask("POST", f"{place}rolebindings", binding)
        time.sleep(0.2)  # until the authorizer has seen the bindings
        answer = self._ask("POST", f"{accounts}/{name}/token", {"spec": {}})
        return answer["status"]["token"]

    def kubeconfig(self, path, token=None):
        there = {"server": self.url, "certificate-authority": str(self.ca)}
        context = {"cluster": "test", "user": "test", "namespace": "default"}
        written = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        user = {"token": token or self._admin}
        for kind, value in (("cluster", there), ("context", context), ("user", user)):
            written[f"{kind}s"] = [{"name": "test", kind: value}]
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(written))
        return path

    # What happens to nodes and pods.

    def add_node(self, name, *, gpus=0, hidden_gpus=0, labels=None, taints=()):
        self._order(Add=name, GPUs=gpus, Labels=labels or {}, Taints=[*taints])
        self.wait_for(
            lambda: all(
                "not-ready" not in one["key"]
                for one in self.find("nodes", None, name)["spec"].get("taints", ())
            )
        )

    def lose_node(self, name, **seconds):
        if seconds:
            pytest.skip("the real control plane has its own times for a lost node")
        self._order(Lose=name)

    def reclaim_node(self, name, *, notice_seconds=1.0):
        self._order(Reclaim=name, Seconds=notice_seconds)

    def evict(self, namespace, pod):
        path = self._path("pods", namespace, f"{pod}/eviction")
        self._ask("POST", path, {"metadata": {"name": pod, "namespace": namespace}})

    def evict_under_pressure(self, namespace, pod):
        self._order(Pressure=f"{namespace}/{pod}")

    def oom(self, namespace, pod):
        self._order(OOM=f"{namespace}/{pod}")

    def registry(self, *, is_away):
        self._is_away = is_away
        self._write()

    def __getattr__(self, name):
        faults = {"away", "cut_watches", "forget_history", "answer", "lose_answer", "requests"}
        if name in faults | {"freeze", "images", "kill", "provide", "end_request", "trust"}:
            pytest.skip(f"the real control plane cannot play `{name}`")
        raise AttributeError(name)


@contextlib.contextmanager
def real_cluster(
    nodes=1, gpus=0, images=None, *, root, backoff_scale=0.02, host_ports=(), **options
):
    """Runs a real control plane with nodes `node-0`, `node-1`, ... as `local_cluster` does.

    Each pod has a network of its own; it reaches `host_ports` of this machine at its own loopback.
    """
    program = built()
    if options.get("enforces_policies") is False:
        del options["enforces_policies"]  # nothing does here
    if options:
        pytest.skip(f"the real control plane has no {', '.join(sorted(options))}")
    root = root / "cluster"
    root.mkdir(parents=True)
    words = [
        program,
        "up",
        "--dir",
        str(root / "state"),
        "--nodes",
        str(nodes),
        "--gpus",
        str(gpus),
    ]
    words += ["--images", str(root / "images.json"), "--exit-on-stdin-eof"]
    words += ["--host-ports", ",".join(map(str, host_ports))]
    words += ["--job-backoff", f"{10 * backoff_scale:.3f}s"]
    words += ["--job-backoff-max", f"{600 * backoff_scale:.3f}s"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as running:
        try:
            cluster = RealCluster(root, images, running)
            yield cluster
            cluster.close()
        finally:
            running.terminate()
            shutil.rmtree(root / "state", ignore_errors=True)
