"""HTTP transport: redirects and encryption."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cloudgan.launch.container_registry.transport import WebTransport, is_safe


@contextmanager
def serving(answer):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = answer(self)
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_redirect_to_another_host_drops_the_token():
    seen = []

    def blobs(handler):
        seen.append(handler.headers.get("Authorization"))
        return 200, {}, b"blob"

    with (
        serving(blobs) as elsewhere,
        serving(lambda _: (307, {"Location": elsewhere}, b"")) as here,
    ):
        answer = WebTransport().send("GET", f"{here}/v2/x", {"Authorization": "Bearer t"})
    assert answer.body == b"blob"
    assert seen == [None]


def test_nothing_is_sent_unencrypted_to_another_machine():
    with pytest.raises(OSError, match="without encryption"):
        WebTransport().send("GET", "http://192.0.2.1/v2/", {})
    with (
        serving(lambda _: (302, {"Location": "http://192.0.2.1/"}, b"")) as here,
        pytest.raises(OSError, match="without encryption"),
    ):
        WebTransport().send("GET", here, {})


def test_loopback_and_https_are_safe():
    for url in ("https://ghcr.io", "http://localhost:5000", "http://127.0.0.9:1", "http://[::1]:1"):
        assert is_safe(url), url
    for url in ("http://ghcr.io", "http://localhost.example", "ftp://127.0.0.1.example"):
        assert not is_safe(url), url
