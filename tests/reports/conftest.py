"""A page with every kind of block, and a browser to open it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloudgan.reports.charts import Axis, Bar, Line, Plot, Point, PointSeries, StackedBars
from cloudgan.reports.page import Bullets, KeyFigures, Page, Paragraph, Section
from cloudgan.reports.table import Mark, Number, Table

NASTY = "</script><script>alert('x')</script> & \"more\" <!--"

PLACES = Table(
    ("place", "size (km²)", "people", "checked", "price (USD)"),
    (
        ("Lake 10", 12.5, 1200, Mark(passed=True), Number(3.0, "3")),
        ("Hill 9", None, 85, Mark(passed=False, text="too steep"), Number(None, "at least 2")),
        ("Hill 10", 104.25, None, Mark(passed=None), 12.5),
        ("Forest", 8.75, 12345, Mark(passed=True), float("nan")),
        (NASTY, 1e-7, 0, Mark(passed=True), float("inf")),
    ),
    caption="Places, and what is known of them.",
    interactive=True,
)


def _fleet() -> Plot:
    series = tuple(
        PointSeries(
            market,
            tuple(
                Point(60 / (speed * n), 60 / speed * price * factor, f"{n} x {name}", market)
                for name, speed, price in (("small", 1.0, 0.45), ("large", 9.0, 8.9))
                for n in (1, 2, 4, 8, 16)
            ),
        )
        for market, factor in (("on demand", 1.0), ("spot", 0.35))
    )
    return Plot(
        "Time against cost of one job",
        Axis("time (h)", log=True),
        Axis("cost (USD)", log=True),
        series,
        front=((60 / 144, 60 / 9 * 8.9 * 0.35), (60 / 16, 60 * 0.45 * 0.35)),
        caption="Nothing below or left of the line is on offer.",
    )


def _scaling() -> Plot:
    sizes = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    seconds = tuple(4000 / n + 6 for n in sizes)
    low, high = (tuple(factor * y for y in seconds) for factor in (0.9, 1.2))
    points = zip(sizes[:4], seconds, strict=False)
    measured = tuple(Point(n, y, f"{n:g} devices", "run 1") for n, y in points)
    return Plot(
        "Time for one round, measured and fitted",
        Axis("devices", log=True, ticks=sizes),
        Axis("time for one round (s)", log=True),
        (PointSeries("measured", measured),),
        (Line("fit", sizes, seconds, low, high),),
        band_label="90 % band",
        extrapolated_from=16.0,
        caption="Beyond 16 devices nothing was measured: extrapolated 8x.",
    )


def _parts() -> StackedBars:
    return StackedBars(
        "What the money went to",
        Axis("cost (USD)"),
        ("provisioning", "first round", "steady rounds", "checkpoints", "idle tail", "egress"),
        (
            Bar("8 x medium, north-1", (0.8, 1.1, 14.2, 0.3, 0.6, 0.4)),
            Bar("8 x medium, north-1, spot", (0.3, 0.4, 5.1, 0.1, 0.2, None)),
            Bar("a node with a name so long that no sheet of paper holds it " * 2,
                (0.8, 1.0, 8.0, 0.0, 0.1, 0.2)),
            Bar(NASTY, (None, None, None, None, None, None)),
        ),
        caption="Unmeasured parts are not zero.",
    )  # fmt: skip


@pytest.fixture(scope="session")
def sample_page() -> Page:
    """Everything a page can hold but graphics."""
    return Page(
        "A quiet report",
        "What was done, and what came out of it.",
        (
            Section(
                "In short",
                (
                    KeyFigures((("2.84 USD", "per round", "list price"), ("61 s", "a round", ""))),
                    Paragraph("Running text says what the figures mean. " * 4),
                    Bullets(("[1] a source", NASTY)),
                ),
            ),
            Section("Places", (PLACES,)),
            Section("Time and cost", (_fleet(), _scaling(), _parts())),
        ),
        "Made by a test.",
    )


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 60
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_WITH_PIPE = (
    "import os, sys; os.dup2({end}, 3); os.dup2({end}, 4); os.execv(sys.argv[1], sys.argv[1:])"
)


class Browser:
    """A real browser without a window, controlled over a pipe by its own protocol.

    Source: https://chromedevtools.github.io/devtools-protocol/ (2026-11-21).
    """

    def __init__(self, program: str, profile: Path) -> None:
        ours, theirs = socket.socketpair()
        # It wants them as file descriptors 3 and 4: no port, and no client library, is needed.
        end = theirs.fileno()
        command = [sys.executable, "-c", _WITH_PIPE.format(end=end), program, *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=[end],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(_SECONDS)
        self._pipe, self._received, self._number = ours, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its answer; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._pipe.sendall(json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    def open(self, path: Path) -> None:
        """Opens a file and waits until it is there."""
        self.events.clear()
        self.ask("Page.navigate", url=path.as_uri())
        while not self.happened("Page.loadEventFired"):
            self.events.append(self._next())

    def happened(self, method: str) -> list[dict[str, Any]]:
        """The data of the events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page."""
        said = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Presses a key, such as Enter."""
        code = {"Enter": 13, "Tab": 9, " ": 32}[key]
        about = {"key": key, "windowsVirtualKeyCode": code}
        self.ask(
            "Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {})
        )
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector: str) -> None:
        """Clicks on the middle of an element."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def show_as(self, scheme: str = "light", width: int = 1100) -> None:
        """Sets the reader's colour scheme and the width of the screen in pixels."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._pipe.close()
        self._process.wait()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            more = self._pipe.recv(1 << 16)
            assert more, "the browser is gone"
            self._received += more
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A real browser; tests that need one are skipped where there is none."""
    named = os.environ.get("CHROME_BIN")
    program = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None or shutil.which(program) is None:
        pytest.skip(f"no browser: CHROME_BIN={named}, on PATH none of {', '.join(BROWSERS)}")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()
