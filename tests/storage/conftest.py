"""Servers on loopback that implement the object storage protocols of the three clouds."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import Store
from emulators.http import Answer, AnswerLost, Asked, HttpServer
from storage.servers import free_port, gcs_server, running

AZURITE = "devstoreaccount1"
AZURITE_KEY = (  # the emulator's public key
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class StoreServer(NamedTuple):
    """One kind of store, opened on the test server or at another address."""

    kind: str
    address: str
    open: Callable[..., Store]
    """(bucket, prefix, address=None, attempts=1) -> a store."""
    make_bucket: Callable[[str], None]


# Not of the session: its keys would stay in the environment of other files.
@pytest.fixture(scope="module")
def s3() -> Iterator[StoreServer]:
    boto3 = pytest.importorskip("boto3", reason="needs pip install '.[aws]'")
    pytest.importorskip("moto", reason="needs pip install 'moto[s3]'")
    pytest.importorskip("flask_cors", reason="needs pip install flask flask-cors")
    from moto.server import ThreadedMotoServer

    from cloudgan.storage.s3 import S3Store, s3_client

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    here = "http://{}:{}".format(*server.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_PROFILE", raising=False)

        def make_bucket(name: str) -> None:
            boto3.client("s3", endpoint_url=here, region_name="us-east-1").create_bucket(
                Bucket=name
            )

        def open_(bucket: str, prefix: str, address: str | None = None, attempts: int = 1) -> Store:
            client = stack.enter_context(
                contextlib.closing(s3_client(address or here, attempts=attempts))
            )
            return S3Store(bucket, _parts(prefix), client=client)

        with contextlib.ExitStack() as stack:
            yield StoreServer("s3", here, open_, make_bucket)
    server.stop()


@pytest.fixture(scope="session")
def gcs() -> Iterator[StoreServer]:
    storage = pytest.importorskip("google.cloud.storage", reason="needs pip install '.[gcp]'")
    from google.auth.credentials import AnonymousCredentials

    from cloudgan.storage.gcs import GcsStore

    def client(address: str) -> Any:
        made = storage.Client(
            project="test",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": address},
        )
        return stack.enter_context(contextlib.closing(made))

    def open_(bucket: str, prefix: str, address: str | None = None, attempts: int = 1) -> Store:
        patience = {1: 0.1, 2: 2, 4: 20}[attempts]
        return GcsStore(
            bucket, _parts(prefix), client=client(address or here), patience_seconds=patience
        )

    with gcs_server() as here, contextlib.ExitStack() as stack:
        yield StoreServer("gcs", here, open_, lambda name: client(here).create_bucket(name))


@pytest.fixture(scope="session")
def azure() -> Iterator[StoreServer]:
    pytest.importorskip("azure.storage.blob", reason="needs pip install '.[azure]'")
    azurite = shutil.which("azurite-blob")
    if not azurite:
        pytest.skip("needs azurite-blob: make azurite")
    from cloudgan.storage.azure import AzureStore, blob_client

    port = free_port()
    here = f"http://127.0.0.1:{port}"

    def client(address: str, attempts: int) -> Any:
        made = blob_client(f"{address}/{AZURITE}", AZURITE_KEY, attempts=attempts)
        return stack.enter_context(contextlib.closing(made))

    def open_(bucket: str, prefix: str, address: str | None = None, attempts: int = 1) -> Store:
        return AzureStore(bucket, _parts(prefix), client=client(address or here, attempts))

    options = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    where = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    with running(azurite, *where, *options, port=port), contextlib.ExitStack() as stack:
        yield StoreServer("azure", here, open_, lambda name: client(here, 3).create_container(name))


@pytest.fixture(params=["s3", "gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> StoreServer:
    found: StoreServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["folder", "s3", "gcs", "azure"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    if request.param == "folder":
        return FolderStore(tmp_path / "store")
    there: StoreServer = request.getfixturevalue(request.param)
    there.make_bucket(bucket := f"bucket-{time.monotonic_ns()}")
    return there.open(bucket, "runs/demo")


class FaultyProxy:
    """Settings of an HTTP proxy in front of a store that injects faults."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.seen: list[str] = []
        self.status = 0
        self.denied, self.denied_status = 0, 403
        """How many requests to deny, as IAM does until a new permission takes effect.

        2 to 7 minutes: https://cloud.google.com/iam/docs/access-change-propagation (read 2026-11-22).
        """
        self.truncated_bodies = 0
        """How many large response bodies to truncate."""
        self.lost_responses = 0
        """How many PUT and POST requests to forward without returning the response."""
        self.before_read: Callable[[str], None] | None = None
        """What another program does before a GET or HEAD request of a path arrives."""

    def answer(self, asked: Asked) -> Answer:
        self.seen.append(asked.method)
        if self.status:
            return Answer(self.status)
        if self.denied:
            self.denied -= 1
            return Answer(self.denied_status)
        if self.before_read and asked.method in ("GET", "HEAD"):
            self.before_read(asked.target)
        upstream = http.client.HTTPConnection(self.upstream.rpartition("/")[2], timeout=20)
        with contextlib.closing(upstream):
            upstream.request(asked.method, asked.target, asked.body, dict(asked.headers))
            found = upstream.getresponse()
            content = found.read()
        if self.lost_responses and asked.method in ("PUT", "POST"):
            self.lost_responses -= 1
            raise AnswerLost
        here = f"http://{asked.headers['Host']}"
        ours = {"transfer-encoding", "connection"}
        ours |= {"content-length"} if asked.method != "HEAD" else set()
        headers = {
            name: value.replace(self.upstream, here)
            for name, value in found.headers.items()
            if name.lower() not in ours
        }
        if not self.truncated_bodies or len(content) <= 100_000:
            return Answer(found.status, content, headers)
        self.truncated_bodies -= 1
        return Answer(found.status, content, headers, len(content) // 2)


@pytest.fixture
def between(cloud: StoreServer) -> Iterator[tuple[FaultyProxy, str]]:
    """A proxy to `cloud` and its address; without changes it forwards every request."""
    proxy = FaultyProxy(cloud.address)
    with contextlib.closing(HttpServer(proxy.answer)) as server:
        yield proxy, server.url


def _parts(prefix: str) -> tuple[str, ...]:
    return tuple(prefix.split("/")) if prefix else ()
