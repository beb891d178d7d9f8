"""Settings of all tests: no network but loopback, no credentials, no TensorFlow tests without TensorFlow.

The guard on sockets covers Python only, not programs that tests start, nor TensorFlow's C++: these
have an environment without credentials, proxies and endpoints.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import gc
import importlib.metadata
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

from cloudgan.cli.main import main
from cloudgan.core import settings
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.launch.plan.build import PlanRequest, make_plan
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Showers, Target, Wheel, Workers
from cloudgan.speed.model import build_throughput_model
from forking_server import ADDRESS, ForkedProgram, forking_server

HERE = Path(__file__).parent
AZURITE = HERE / "azurite" / "node_modules" / ".bin"  # `make azurite` fills it
HAS_TENSORFLOW = find_spec("tensorflow") is not None
TENSORFLOW_FOLDERS = ("end_to_end", "training")
"""Folders whose tests need TensorFlow; elsewhere a test or a module carries the marker `tf`."""
DURATIONS = HERE / "durations.json"
"""Seconds of each test file, recorded by `make durations`: the longest files start first."""

# A busy machine makes no test of properties fail; CI's own profile stays.
hypothesis.settings.register_profile(
    "any machine",
    parent=hypothesis.settings(),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")

AMBIENT = re.compile(
    r"(AWS|AZURE|ARM|GOOGLE|GCLOUD|GCP|GCS|CLOUDSDK|BOTO|KUBE|SLURM|CLOUDGAN)_.*"
    r"|KUBECONFIG|STORAGE_EMULATOR_HOST|TF_CONFIG|NO_GCE_CHECK"
    r"|CI"  # where it is set, a terminal shows no live line
    r"|(HTTPS?|ALL|NO|FTP)_PROXY"
    r"|DOCKER_CONFIG|REGISTRY_AUTH_FILE|XDG_RUNTIME_DIR"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|HTTPLIB2_CA_CERTS"
    r"|GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    re.IGNORECASE,
)


def pytest_configure() -> None:
    # A shell starts what stands before `&` with Ctrl-C ignored, and programs that tests interrupt inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.quiet_tensorflow()  # TensorFlow reads these at its import only
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ["MPLBACKEND"] = "Agg"


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    """One forking server for all processes of a test run."""
    if not HAS_TENSORFLOW or ADDRESS in os.environ:
        return (yield)
    with forking_server():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Half a million objects live from here to the end: the garbage collector scans only later ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if not HAS_TENSORFLOW:  # few objects of Keras, which refer to each other, hold much memory
            gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name}")


def pytest_report_header() -> str:
    if HAS_TENSORFLOW:
        return f"tensorflow: {importlib.metadata.version('tensorflow')}"
    return "tensorflow: not installed; tests marked tf are not collected"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Imports no module that holds no selected test: with `tf` or `slow` only files that may have one."""
    if not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    in_folder = _in_tensorflow_folder(collection_path)
    whole_module = in_folder or re.search(
        r"^pytestmark = \[?pytest\.mark\.tf\b", text, re.MULTILINE
    )
    selected = config.option.markexpr.split(" and ")
    if whole_module and (not HAS_TENSORFLOW or "not tf" in selected):
        return True
    if "tf" in selected and not in_folder and "pytest.mark.tf" not in text:
        return True
    if "slow" in selected and not re.search(SLOW, text):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _in_tensorflow_folder(item.path):
            item.add_marker("tf")
        if not HAS_TENSORFLOW and item.get_closest_marker("tf"):
            item.add_marker(pytest.mark.skip("needs TensorFlow"))
        for name in ONLY_WITH_MARKER.difference(config.option.markexpr.split()):
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(f"takes minutes; runs with -m {name}"))
    # With several processes the longest files start first, so that no process waits long at the end.
    seconds = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    items.sort(key=lambda item: -seconds.get(_file_of(item.nodeid), 0.0))


SLOW = r"pytest\.mark\.slow|\b(cluster|make_lab|lab|connect)\b"
"""What a file with slow tests has: the marker, or a fixture that also starts the real control plane."""
ONLY_WITH_MARKER = {"each_call", "image", "long_fuzz", "long_physics"}


def _in_tensorflow_folder(path: Path) -> bool:
    return path.relative_to(HERE).parts[0] in TENSORFLOW_FOLDERS


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Counts the skipped tests by reason; records the seconds of each file where asked."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:4d}  {reason}")
    if config.option.record_durations:
        known = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
        measured: Counter[str] = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                if hasattr(report, "duration"):
                    measured[_file_of(report.nodeid)] += report.duration
        rows = known | {name: round(seconds, 1) for name, seconds in measured.items()}
        rows = {name: rows[name] for name in sorted(rows) if (HERE / name).exists()}
        DURATIONS.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def no_ambient_environment(tmp_path_factory):
    """Hides the user's logins, proxies and clusters from the tests; a test sets what it needs."""
    nowhere = tmp_path_factory.mktemp("no-account")
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
        for programs in (Path(sys.executable).parent, AZURITE):  # shellcheck comes from the lock
            patch.setenv("PATH", str(programs), prepend=os.pathsep)
        (nowhere / "config.json").write_text(
            "{}"
        )  # buildah fails if DOCKER_CONFIG has no such file
        patch.setenv("DOCKER_CONFIG", str(nowhere))
        for cloud in ("AWS", "AZURE", "GCP"):  # refuses connections at once
            patch.setenv(f"CLOUDGAN_{cloud}_PRICES_URL", "http://127.0.0.1:9")
        yield


@pytest.fixture(params=["double", pytest.param("real", marks=pytest.mark.slow)])
def cluster(request):
    """Returns what runs a Kubernetes cluster: the double, and the real control plane where it was built."""
    if request.param == "double":
        from emulators.kubernetes import local_cluster

        return local_cluster
    from realcluster.cluster import real_cluster

    return real_cluster


@pytest.fixture(autouse=True)
def usual_precision():
    """Resets what a test, or the product in it, set of Keras for its whole process."""
    yield
    if keras := sys.modules.get("keras"):
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="session", autouse=True)
def only_loopback():
    """Fails a test that connects to, or looks up, another machine.

    The failure is no OSError, so that code which retries cannot catch it.
    """
    real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    look_up = socket.getaddrinfo

    def guarded(name):
        def call(self, *arguments):
            # sendto may have flags before the address
            _refuse_other_machines(arguments[-1], self.family)
            return real[name](self, *arguments)

        return call

    def guarded_look_up(host, *arguments, **keywords):
        _refuse_other_machines((host,), socket.AF_INET)
        return look_up(host, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(socket.socket, name, guarded(name))
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Makes a folder once for all processes of this test run; the later ones wait for the first.

    Tests only read such a folder: others read it at the same time.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)

    def get(name, make):
        folder, complete = shared / name, shared / f"{name}.complete"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                complete.touch()
        return folder

    return get


@pytest.fixture(scope="session")
def plain_model():
    """The smoke preset with fewer parts, compiled sooner: for runs that start, stop and resume."""
    return {
        "preset": "smoke",
        "generator_updates": 1,
        "optimizer": "rmsprop",
        "dropout": 0.0,
        "label_flip_fraction": 0.0,
        "loss_weights": {"longitudinal": 0.0},
    }


@pytest.fixture(scope="session")
def asked_of():
    """Builds the request of a plan: one node of a cluster, with the given changes."""
    noon = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    wheels = tuple(
        Wheel(file_name=f"{name}-1.0-py3-none-any.whl", sha256=f"{number:064x}", bytes=1000)
        for number, name in enumerate(("cloudgan", "keras"), start=1)
    )

    def build(*, name="gan", training=(), target=(), workers=(), showers=(), **others):
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
            "target": Target(**cluster | dict(target)),
            "workers": Workers(**kind | dict(workers)),
            "store": "gs://lab/cloudgan",
            "showers": Showers(
                **{"source": "gs://lab/data/electrons", "records": 1000} | dict(showers)
            ),
            "owner": "Marie Curie",
            "wheels": wheels,
        }
        return PlanRequest(**given | others), noon

    return build


@pytest.fixture(scope="session")
def plan_of(asked_of):
    """Makes a plan from the arguments of `asked_of`, with the cost model without any run."""
    unknown = build_throughput_model("paper", 1000, ())

    def build(*, requests=manifest_steps, known=unknown, **asked):
        built, noon = asked_of(**asked)
        return make_plan(built, known, requests, noon)

    return build


@pytest.fixture(scope="session")
def run_cloudgan():
    """Runs `python -m cloudgan` in a process of its own and returns it when it has ended.

    With TensorFlow installed it is forked (tests/forking_server.py), unless `fork` is false.
    """

    def run(*arguments, check=True, fork=HAS_TENSORFLOW, timeout=900, **environment):
        words = [str(argument) for argument in arguments]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"} | environment
        if fork:
            with contextlib.closing(ForkedProgram(words, environment)) as program:
                said = program.communicate(timeout)
            done = subprocess.CompletedProcess(words, program.returncode, *said)
        else:
            done = subprocess.run(
                [sys.executable, "-m", "cloudgan", *words],
                capture_output=True,
                text=True,
                timeout=timeout,
                env=environment,
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

    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def cloudgan_here(capsys):
    """Runs a command other than training in this process, and checks its exit code `exits`."""

    def run(*arguments, exits=0):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = Said(*capsys.readouterr())
        assert (ended.value.code or 0) == exits, said.stdout + said.stderr
        return said

    return run


def _refuse_other_machines(address, family):
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
