"""S3 over HTTPS at a server that is not Amazon's, and its answers to conditional writes."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cloudgan.storage.store import ObjectExistsError, StoreError, open_store
from emulators.kubernetes.certificates import authority

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self):
            path, length = self.path.partition("?")[0], self.headers.get("Content-Length")
            body = self.rfile.read(int(length)) if length else self.chunks()
            if found.conflicts:
                found.conflicts -= 1
                self.refuse(409, "ConditionalRequestConflict")
            elif not length and not found.decodes_nothing:
                self.refuse(411, "MissingContentLength")
            elif self.headers.get("If-None-Match") and path in found.objects:
                self.refuse(412, "PreconditionFailed")
            else:
                found.objects[path] = body, self.headers["x-amz-meta-cloudganwrite"]
                self.answer(200, b"")

        def do_GET(self):
            content, mark = found.objects[self.path.partition("?")[0]]
            self.answer(200, content, {"x-amz-meta-cloudganwrite": mark})

        do_HEAD = do_GET  # noqa: N815  http.server's names

        def chunks(self):
            """Reads what HTTP's own chunks hold."""
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def refuse(self, status, code):
            self.answer(status, f"<Error><Code>{code}</Code></Error>".encode())

        def answer(self, status, body, headers=None):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    signed = authority()
    for name, pem in (
        ("ca.pem", signed.certificate),
        ("server.pem", signed.certificate + signed.key),
    ):
        (tmp_path / name).write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"https://127.0.0.1:{listening.server_port}"),
        ("AWS_CA_BUNDLE", str(tmp_path / "ca.pem")),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ):
        monkeypatch.setenv(name, value)
    yield found
    listening.shutdown()
    listening.server_close()


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
