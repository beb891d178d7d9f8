"""Servers on loopback with the protocols of the clouds' price lists."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from cloudgan.money.refresh.web import Web
from emulators.http import Answer, HttpServer


class Asked(NamedTuple):
    """One request."""

    path: str
    query: dict[str, str]
    """The first value of each name, of the address or of a form."""


class Lists:
    """A server of price lists: `answer` returns the response, `asked` has the requests."""

    def __init__(self):
        self.asked: list[Asked] = []
        self.answer = lambda _: self.says(b"{}")
        self.date: str | None = None
        """The time in its Date header, if not the real one."""
        self.server = HttpServer(self._reply)
        self.url = self.server.url

    @staticmethod
    def says(body=b"", status=200, headers=(), cut=0):
        return Answer(status, body, dict(headers), cut)

    def in_turn(self, *answers):
        """Sends these responses one after the other, and repeats the last."""
        left = list(answers)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def _reply(self, asked):
        parts = urlsplit(asked.target)
        form = parse_qs(asked.body.decode() if asked.method == "POST" else parts.query)
        self.asked.append(Asked(parts.path, {name: texts[0] for name, texts in form.items()}))
        found = self.answer(self.asked[-1])
        return found._replace(headers=found.headers | ({"Date": self.date} if self.date else {}))


@pytest.fixture
def lists():
    """A running server."""
    found = Lists()
    yield found
    found.server.close()


@pytest.fixture
def waits():
    """The seconds that `web` waited, instead of waiting."""
    return []


@pytest.fixture
def web(waits):
    return Web(sleep=waits.append)
