"""S3 over HTTPS at a server that is not Amazon's, and its answers to conditional writes."""

from __future__ import annotations

import pytest

from cloudgan.storage.store import ObjectExistsError, StoreError, open_store
from emulators.certificates import write_certificates
from emulators.http import Answer, HttpServer

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # see conftest


class OldServer:
    """Keeps objects as Ceph did before it knew `aws-chunked`.

    Attributes:
        decodes_nothing: Keep the body as it is sent, as others did (https://github.com/boto/boto3/issues/4398,
            2026-11-25); else refuse one without Content-Length
            (https://github.com/canonical/vault-k8s-operator/pull/825, 2026-11-25).
        conflicts: How many writes meet another one of the same object.
        objects: Content and metadata by path.
    """

    def __init__(self):
        self.decodes_nothing, self.conflicts = False, 0
        self.objects: dict[str, tuple[bytes, str]] = {}


@pytest.fixture
def server(tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    found = OldServer()

    def refuse(status, code):
        return Answer(status, f"<Error><Code>{code}</Code></Error>")

    def answer(asked):
        path, length = asked.target.partition("?")[0], asked.headers.get("Content-Length")
        if asked.method != "PUT":
            content, mark = found.objects[path]
            return Answer(200, content, {"x-amz-meta-cloudganwrite": mark, "ETag": '"1"'})
        if found.conflicts:
            found.conflicts -= 1
            return refuse(409, "ConditionalRequestConflict")
        if not length and not found.decodes_nothing:
            return refuse(411, "MissingContentLength")
        if asked.headers.get("If-None-Match") and path in found.objects:
            return refuse(412, "PreconditionFailed")
        found.objects[path] = asked.body, asked.headers["x-amz-meta-cloudganwrite"]
        return Answer(200)

    files = write_certificates(tmp_path)
    listening = HttpServer(answer, files.context())
    for name, value in (
        ("AWS_ENDPOINT_URL", listening.url),
        ("AWS_CA_BUNDLE", str(files.authority)),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ):
        monkeypatch.setenv(name, value)
    yield found
    listening.close()


@pytest.mark.parametrize("decodes_nothing", [False, True])
@pytest.mark.parametrize("size", [0, 5, 120_000])
def test_what_is_stored_at_another_server_over_https_comes_back(
    server, tmp_path, decodes_nothing, size
):
    server.decodes_nothing = decodes_nothing
    store, content = open_store("s3://bucket/x"), bytes(range(250)) * 480
    content = content[:size]
    (tmp_path / "file").write_bytes(content)
    store.put("bytes", content)
    store.put("file", tmp_path / "file", if_absent=True)
    assert store.read("bytes") == content
    store.get("file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_a_write_that_meets_another_one_is_repeated(server, tmp_path):
    store = open_store("s3://bucket/x")
    (tmp_path / "file").write_bytes(b"content")
    server.conflicts = 1
    store.put("a", tmp_path / "file", if_absent=True)
    assert store.read("a") == b"content"
    server.conflicts = 1
    with pytest.raises(ObjectExistsError, match="already exists"):
        store.put("a", b"other", if_absent=True)
    assert store.read("a") == b"content"


@pytest.mark.slow
def test_a_write_that_always_meets_another_one_is_a_store_error(server):
    server.conflicts = 100
    with pytest.raises(StoreError, match="ConditionalRequestConflict") as raised:
        open_store("s3://bucket/x").put("a", b"a", if_absent=True)
    assert not isinstance(raised.value, ObjectExistsError)
