"""Local ports for peer names, and probes."""

from __future__ import annotations

import time

import pytest
from kubernetes import client

from emulators.kubernetes import local_cluster, python_image
from emulators.kubernetes.ports import free_pair

SERVER = """
import http.server, json, os, sys
own = os.environ['CLOUDGAN_PEERS'].split(',')[int(os.environ['JOB_COMPLETION_INDEX'])]
assert own.startswith('127.0.0.1:')
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *arguments):
        print('asked', self.path, flush=True)
print(os.environ['CLOUDGAN_PEERS'], flush=True)
http.server.ThreadingHTTPServer(('127.0.0.1', int(own.split(':')[1]) + 1), Handler).serve_forever()
"""


@pytest.fixture
def quick(tmp_path):
    """A cluster whose probes' seconds are short."""
    with local_cluster(2, images={"*": python_image()}, root=tmp_path, probe_scale=0.05) as running:
        yield running


def job_of_servers(core, batch, service="gan-peers", subdomain="gan-peers"):
    ports = [{"name": "grpc", "port": 2222}]
    core.create_namespaced_service(
        "default",
        {"metadata": {"name": "gan-peers"}, "spec": {"clusterIP": "None", "ports": ports}},
    )
    probe = {"httpGet": {"path": "/state", "port": 2223}, "periodSeconds": 2, "timeoutSeconds": 4}
    main = {
        "name": "trainer",
        "image": "any:1",
        "command": ["python", "-c", SERVER],
        "env": [{"name": "CLOUDGAN_PEERS", "value": f"gan-{{index}}.{service}:2222"}],
        "startupProbe": probe | {"failureThreshold": 200},
        "livenessProbe": probe,
    }
    pod = {"restartPolicy": "Never", "subdomain": subdomain, "containers": [main]}
    pod["terminationGracePeriodSeconds"] = 1
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    spec |= {"template": {"spec": pod}, "backoffLimit": 0}
    batch.create_namespaced_job("default", {"metadata": {"name": "gan"}, "spec": spec})


@pytest.fixture
def clients(quick, tmp_path):
    settings = client.Configuration(host=quick.url)
    settings.ssl_ca_cert = str(quick.ca)
    settings.api_key = {"authorization": f"Bearer {quick.token()}"}
    api = client.ApiClient(settings)
    yield client.CoreV1Api(api), client.BatchV1Api(api)
    api.rest_client.pool_manager.clear()


def test_peers_are_local_ports_and_a_frozen_pod_fails_its_probe(quick, clients):
    job_of_servers(*clients)

    def logs():
        pods = quick.select("pods")
        found = [quick.log("default", pod["metadata"]["name"]) for pod in pods]
        return (
            found if len(found) == 2 and all(log.count("asked /state") > 2 for log in found) else 0
        )

    quick.wait_for(
        lambda: [one["status"]["phase"] for one in quick.select("pods")] == ["Running"] * 2
    )
    deadline = time.monotonic() + 20
    while not (found := logs()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first, second = (log.splitlines()[0] for log in found)
    assert first == second
    ports = [int(address.removeprefix("127.0.0.1:")) for address in first.split(",")]
    assert len({*ports, *(port + 1 for port in ports)}) == 4
    name = quick.select("pods")[1]["metadata"]["name"]
    uid = quick.select("pods")[1]["metadata"]["uid"]
    quick.freeze("default", name)
    status = quick.wait_for(
        lambda: next(
            (
                one["status"]
                for one in quick.select("pods")
                if one["metadata"]["uid"] == uid and one["status"]["phase"] == "Failed"
            ),
            0,
        )
    )
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    outcome = [one["message"] for one in quick.select("events") if one["reason"] == "Unhealthy"]
    assert "Liveness probe failed" in outcome[0]
    assert "context deadline exceeded" in outcome[0]


@pytest.mark.parametrize(("service", "subdomain"), [("typo", "typo"), ("gan-peers", "typo")])
def test_peers_that_no_service_names_stay_names(quick, clients, service, subdomain):
    job_of_servers(*clients, service, subdomain)
    (status, *_) = quick.wait_for(
        lambda: [
            one["status"] for one in quick.select("pods") if one["status"]["phase"] == "Failed"
        ]
    )
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_pairs_of_ports_are_free():
    taken = set()
    for _ in range(50):
        port = free_pair(taken)
        assert not {port, port + 1} & taken
        taken |= {port}
