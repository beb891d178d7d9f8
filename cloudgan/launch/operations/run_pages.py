"""The pages of runs: finds them in their folders, opens one in a browser, and serves all on this machine."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote

from cloudgan.core import settings
from cloudgan.core.clock import monotonic_seconds, utc_now
from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.launch.operations.run_status import RunList, task_of
from cloudgan.launch.operations.runs import status
from cloudgan.reports.page import Links, Page, Paragraph, Section, render
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.runs import ReportOptions
from cloudgan.schema.run_folder import RunFolder, find_run_folder, known_runs

PORT = 8421
_LOOPBACK = "127.0.0.1"
_REFRESH_SECONDS = 10
_TIMEOUT_SECONDS = 10.0
_TOKEN_BYTES = 24
_MAKERS = {
    "train": "cloudgan validate {run} --report={folder}/report.html",
    "evolve": "cloudgan evolve --run={folder}",
    "search": "cloudgan search {folder} --show --report={folder}/report.html",
}
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)
"""For pages that pods of a run may have written: no request, and no access to the other pages."""


class OpenedPage(Result):
    """The page of a run, and whether a browser shows it."""

    run: str
    path: str
    opened: bool

    def view(self) -> View:
        """Returns where the page is."""
        if self.opened:
            return View(f"{self.path} is open in the browser", done=True)
        return View(self.path, notes=("no display here: copy it to a machine with a browser",))


@command
def report(options: ReportOptions) -> OpenedPage:
    """Opens the page of a run in the browser, where there is one.

    Raises:
        ConfigError: There is no page; names the command that makes one.
    """
    run = options.run
    folders = [find_run_folder(run)] if run is not None else list(map(RunFolder, known_runs()))
    found = [(page.stat().st_mtime, page, folder) for folder in folders for page in _pages(folder)]
    if not found:
        raise ConfigError(_advice(folders[0] if run is not None else None))
    _, page, folder = max(found, key=lambda one: one[0])
    opened = options.browser and _has_display() and webbrowser.open(page.resolve().as_uri())
    return OpenedPage(run=folder.path.name, path=str(page), opened=opened)


def _pages(folder: RunFolder) -> list[Path]:
    """Returns the HTML files of a folder; none that a link leads out of it."""
    inside = folder.path.resolve()
    return sorted(page for page in folder.path.glob("*.html") if page.resolve().parent == inside)


def _advice(folder: RunFolder | None) -> str:
    if folder is None:
        return "no run in runs/ has a page; `cloudgan validate RUN --report=report.html` writes one"
    maker = _MAKERS[task_of(folder)].format(run=folder.path.name, folder=folder.path)
    return f"{folder.path} has no page; `{maker}` writes one"


def _has_display() -> bool:
    """Whether a browser would have a window: one of a terminal would take this one."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if any(map(settings.variable, names)):
        return True
    try:
        return not isinstance(webbrowser.get(), webbrowser.GenericBrowser)
    except webbrowser.Error:
        return False


class RunServer:
    """A web server on loopback with one page of all runs, and with the pages of each; it can only read.

    Its address has a random token, because other users of this machine reach loopback, too.
    """

    def __init__(self, port: int = PORT) -> None:
        """Binds the port; 0 is any free one.

        Raises:
            ConfigError: The port is in use, or not valid.
        """
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._lock = threading.Lock()
        self._listed: tuple[float, RunList] | None = None
        handler = type("Handler", (_Handler,), {"of": self})
        try:
            self._server = ThreadingHTTPServer((_LOOPBACK, port), handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--port={port} cannot be used ({error}); choose another one from 1024 to 65535"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._hosts = {f"{name}:{self.port}" for name in (_LOOPBACK, "localhost")}

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page of all runs, with its token."""
        return f"http://{_LOOPBACK}:{self.port}/{self._token}/"

    def __enter__(self) -> Self:
        """Starts to answer."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops to answer."""
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Waits until Ctrl-C."""
        self._thread.join()

    def answer(self, host: str | None, path: str) -> tuple[HTTPStatus, str | bytes]:
        """Returns the answer to a GET request.

        The name of the host is checked, so that no site whose name leads to loopback reads a page (DNS
        rebinding, https://owasp.org/www-community/attacks/DNS_Rebinding, 2026-11-25).
        """
        token, _, name = path.removeprefix("/").partition("/")
        is_ours = secrets.compare_digest(token.encode(), self._token.encode())
        if host not in self._hosts or not is_ours:
            return HTTPStatus.FORBIDDEN, "open the address that `cloudgan serve` printed\n"
        if not name:
            return HTTPStatus.OK, render(self._page())
        found = dict(self._links()).get(unquote(name))  # a key of a table: no path leads elsewhere
        if found is None:
            return HTTPStatus.NOT_FOUND, "no such page\n"
        return HTTPStatus.OK, found.read_bytes()

    def _page(self) -> Page:
        found = self._runs()
        links = tuple((name, quote(name)) for name, _ in self._links())
        view = found.view()
        notes = tuple(Paragraph(f"Warning: {line}") for line in view.warnings)
        table = (view.table,) if view.table else ()
        pages = (Section("Pages", (Links(links),)),) if links else ()
        return Page(
            f"Runs of {Path.cwd().name}",
            f"{view.line}. Read {utc_now()}, again every {_REFRESH_SECONDS} seconds.",
            (Section("Runs", (*table, *notes)), *pages),
        )

    def _runs(self) -> RunList:
        """Returns all runs; several readers ask the clusters and clouds once."""
        with self._lock:
            if self._listed is None or monotonic_seconds() - self._listed[0] > _REFRESH_SECONDS / 2:
                found = status()
                assert isinstance(found, RunList)  # noqa: S101  without a name
                self._listed = (monotonic_seconds(), found)
            return self._listed[1]

    @staticmethod
    def _links() -> Iterator[tuple[str, Path]]:
        for path in known_runs():
            for page in _pages(RunFolder(path)):
                yield f"{path.name}/{page.name}", page


class _Handler(BaseHTTPRequestHandler):
    """Answers GET only; other methods get 501 from the base class."""

    of: RunServer
    timeout = _TIMEOUT_SECONDS

    def do_GET(self) -> None:
        """Answers with a page."""
        path = self.path.partition("?")[0]
        try:
            code, content = self.of.answer(self.headers.get("Host"), path)
        except (CloudganError, OSError) as error:
            code, content = HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n"
        body = content.encode(errors="replace") if isinstance(content, str) else content
        is_page = code == HTTPStatus.OK
        self.send_response(code)
        self.send_header("Content-Type", f"text/{'html' if is_page else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")  # the address has the token
        self.send_header("Cache-Control", "no-store")
        if is_page and isinstance(content, str):
            self.send_header("Refresh", str(_REFRESH_SECONDS))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Logs nothing: the address has the token."""
