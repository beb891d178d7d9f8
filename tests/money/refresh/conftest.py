"""Servers on loopback with the protocols of the clouds' price lists."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from cloudgan.money.refresh.web import Web


class Answer(NamedTuple):
    """The response to one request."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cut: int = 0
    """So many of the last bytes are in Content-Length and not sent."""


class Asked(NamedTuple):
    """One request."""

    path: str
    query: dict[str, str]
    """The first value of each name, of the address or of a form."""


class Lists:
    """A server of price lists: `answer` returns the response, `asked` has the requests."""

    def __init__(self):
        self.asked: list[Asked] = []
        self.answer = lambda _: Answer(b"{}")
        self.url = ""
        self.date: str | None = None
        """The time in its Date header, if not the real one."""

    says = Answer

    def in_turn(self, *answers):
        """Sends these responses one after the other, and repeats the last."""
        left = list(answers)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def lists():
    """A running server."""
    found = Lists()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply(urlsplit(self.path).query)

        def do_POST(self):
            self.reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def reply(self, form):
            parts = urlsplit(self.path)
            query = {name: texts[0] for name, texts in parse_qs(form).items()}
            found.asked.append(Asked(parts.path, query))
            said = found.answer(found.asked[-1])
            self.send_response(said.status)
            for name, text in said.headers:
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body[: len(said.body) - said.cut])

        def date_time_string(self, timestamp=None):
            return found.date or super().date_time_string(timestamp)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.fixture
def waits():
    """The seconds that `web` waited, instead of waiting."""
    return []


@pytest.fixture
def web(waits):
    return Web(sleep=waits.append)
