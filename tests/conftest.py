"""What holds for all tests: no network but loopback, no credentials, no TensorFlow where none is.

The guard on sockets sees Python's own. Programs that tests start, and TensorFlow's C++, are beyond
it: they are kept at home by an environment without credentials, proxies and endpoints.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import ipaddress
import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from cloudgan.cli.main import main
from cloudgan.core import settings
from cloudgan.core.config import parse_config
from cloudgan.core.plan import Place, Showers, Wheel, Workers
from cloudgan.cost.elsewhere import speeds
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.providers.kubernetes.requests import steps
from registry import local_registry

HERE = Path(__file__).parent
AZURITE = HERE / "azurite" / "node_modules" / ".bin"  # `make azurite` fills it
# Folders and files whose modules import Keras or TensorFlow.
NEED_TENSORFLOW = ("models", "training", "test_losses.py")
HAS_TENSORFLOW = find_spec("tensorflow") is not None
collect_ignore = [] if HAS_TENSORFLOW else list(NEED_TENSORFLOW)

AMBIENT = re.compile(
    r"(AWS|AZURE|ARM|GOOGLE|GCLOUD|GCP|GCS|CLOUDSDK|BOTO|KUBE|SLURM|CLOUDGAN)_.*"
    r"|KUBECONFIG|STORAGE_EMULATOR_HOST|TF_CONFIG|NO_GCE_CHECK"
    r"|(HTTPS?|ALL|NO|FTP)_PROXY"
    r"|DOCKER_CONFIG|REGISTRY_AUTH_FILE|XDG_RUNTIME_DIR"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|HTTPLIB2_CA_CERTS"
    r"|GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    re.IGNORECASE,
)


def pytest_configure() -> None:
    """TensorFlow takes these only before it is imported."""
    settings.quiet_tensorflow()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ["MPLBACKEND"] = "Agg"


def pytest_report_header() -> str:
    if HAS_TENSORFLOW:
        return f"tensorflow: {importlib.metadata.version('tensorflow')}"
    return f"tensorflow: none, so not collected: {', '.join(NEED_TENSORFLOW)}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _folder(item) in NEED_TENSORFLOW:
            item.add_marker("tf")
        for name in ONLY_WHERE_ASKED.difference(config.option.markexpr.split()):
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(f"takes minutes; asked for with -m {name}"))
    # The longest first: where several processes share the tests, none waits long for the last.
    items.sort(key=lambda item: _LONGEST_FIRST.get(_folder(item), len(_LONGEST_FIRST)))


ONLY_WHERE_ASKED = {"each_call", "image", "long_physics"}
_LONGEST_FIRST = {"end_to_end": 0, "training": 1}


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).parts[0]


@pytest.fixture(scope="session", autouse=True)
def no_ambient_environment(tmp_path_factory):
    """Nobody's login, proxy or cluster reaches a test; what a test needs it sets."""
    nowhere = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if AMBIENT.fullmatch(name):
                patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", str(nowhere / "aws-config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere / "aws-credentials"))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AZURE_CONFIG_DIR", str(nowhere))
        patch.setenv("CLOUDSDK_CONFIG", str(nowhere))
        patch.setenv("KUBECONFIG", str(nowhere / "kubeconfig"))
        patch.setenv("NO_GCE_CHECK", "true")
        patch.setenv("CLOUDGAN_DATA", str(nowhere / "data"))
        patch.setenv("PATH", str(AZURITE), prepend=os.pathsep)
        (nowhere / "config.json").write_text("{}")  # buildah wants what it is told of to be there
        patch.setenv("DOCKER_CONFIG", str(nowhere))
        for cloud in ("AWS", "AZURE", "GCP"):  # nobody answers there, at once
            patch.setenv(f"CLOUDGAN_{cloud}_PRICES_URL", "http://127.0.0.1:9")
        yield


@pytest.fixture(scope="session", autouse=True)
def docker_hub(no_ambient_environment):
    """What stands for Docker Hub, in this process and those it starts: a registry with these images."""
    with local_registry() as hub, pytest.MonkeyPatch.context() as patch:
        for tag in ("2.21.0", "2.21.0-gpu"):
            hub.put_index("tensorflow/tensorflow", tag, "linux/amd64")
        hub.put_image("lab/gan", "1")
        patch.setenv("CLOUDGAN_DOCKER_MIRROR", hub.url)
        yield hub


@pytest.fixture
def registry():
    """An empty registry of container images."""
    with local_registry() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def only_loopback():
    """Fails a test that speaks, or looks a name up, outside this machine.

    A failure is no OSError, so that nothing which retries can swallow it.
    """
    real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    look_up = socket.getaddrinfo

    def guarded(name):
        def call(self, *arguments):
            # sendto may have flags before the address
            _refuse_strangers(arguments[-1], self.family)
            return real[name](self, *arguments)

        return call

    def guarded_look_up(host, *arguments, **keywords):
        _refuse_strangers((host,), socket.AF_INET)
        return look_up(host, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(socket.socket, name, guarded(name))
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(scope="session")
def asked_of():
    """Builds what a plan is made from: one node of a cluster, and what differs from that."""
    noon = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    wheels = tuple(
        Wheel(file_name=f"{name}-1.0-py3-none-any.whl", sha256=f"{number:064x}", bytes=1000)
        for number, name in enumerate(("cloudgan", "keras"), start=1)
    )

    def build(*, name="gan", training=(), place=(), workers=(), showers=(), **others):
        config = {
            "name": name,
            "model": {"preset": "paper"},
            "data": {"path": "gs://lab/data/electrons"},
            "training": {"epochs": 2} | dict(training),
        }
        cluster = {
            "provider": "kubernetes",
            "context": "lab",
            "server": "https://192.0.2.1:6443",
            "namespace": "cloudgan",
        }
        kind = {
            "nodes": 1,
            "cpus": 4,
            "memory_gib": 8,
            "image": "tensorflow/tensorflow:2.21.0",
        }
        given = {
            "config": parse_config(config, "a test"),
            "place": Place(**cluster | dict(place)),
            "workers": Workers(**kind | dict(workers)),
            "store": "gs://lab/cloudgan",
            "showers": Showers(**{"source": "gs://lab/data/electrons"} | dict(showers)),
            "owner": "Marie Curie",
            "wheels": wheels,
        }
        return Asked(**given | others), noon

    return build


@pytest.fixture(scope="session")
def plan_of(asked_of):
    """Makes a plan of what `asked_of` takes, by the cost model as it is without any run."""
    unknown = speeds("paper", 1000, ())

    def build(*, requests=steps, known=unknown, **asked):
        built, noon = asked_of(**asked)
        return make_plan(built, known, requests, noon)

    return build


@pytest.fixture(scope="session")
def run_cloudgan():
    """Runs `python -m cloudgan` in a process of its own and returns it when it has ended."""

    def run(*arguments, check=True, timeout=300, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "cloudgan", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"} | environment,
            stdin=subprocess.DEVNULL,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


class Said(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture
def cloudgan_here(capsys):
    """Runs a command in this process, for all but training, and looks how it `exits`."""

    def run(*arguments, exits=0):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = Said(*capsys.readouterr())
        assert (ended.value.code or 0) == exits, said.stdout + said.stderr
        return said

    return run


def _refuse_strangers(address, family):
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return
    host = address[0]
    host = host.decode() if isinstance(host, bytes) else host
    if host in {None, "", "localhost", socket.gethostname()}:
        return
    try:
        near = ipaddress.ip_address(host)
    except ValueError:
        near = None
    if near is None or not (near.is_loopback or near.is_unspecified):
        pytest.fail(f"a test may speak to this machine only, not to {host!r}")
