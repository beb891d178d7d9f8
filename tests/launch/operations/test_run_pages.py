"""The pages of runs: `report` opens one, `serve` shows all on loopback, a demo has its quality."""

import http.client
import os
import re
from urllib.parse import urlsplit

import pytest

from cloudgan.api.run_page import quality_sections
from cloudgan.core.errors import ConfigError
from cloudgan.launch.operations import run_pages
from cloudgan.launch.operations.run_pages import RunServer, report
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder
from records import validated


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "old"):
        RunFolder(f"runs/{name}").checkpoints.mkdir(parents=True)
    return tmp_path


def page(run, name="report.html", *, text="<p>hello</p>", seconds=2e9):
    path = RunFolder(f"runs/{run}").path / name
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


@pytest.fixture
def served(here):
    """Asks the server; returns the answer and its content."""
    page("mine")
    with RunServer(0) as server:
        base = urlsplit(server.url)

        def ask(path="", *, method="GET", token=base.path, host=base.netloc):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.putrequest(method, f"{token}{path}", skip_host=True)
            if host:
                connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            return answer, answer.read().decode()

        ask.port = server.port
        yield ask


def test_all_runs_are_one_page_that_links_to_the_page_of_each(served):
    answer, text = served()
    assert answer.status == 200
    assert re.findall(r'<a href="([^"]+)">', text) == ["mine/report.html"]
    assert "<td" in text
    assert ">old<" in text
    assert answer.headers["Refresh"] == "10"
    assert answer.headers["Referrer-Policy"] == "no-referrer", "the address has the token"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    answer, text = served("mine/report.html")
    assert (answer.status, text) == (200, "<p>hello</p>")
    assert "sandbox allow-scripts" in answer.headers["Content-Security-Policy"]


def test_without_the_token_or_by_a_name_that_leads_to_loopback_nothing_is_shown(served):
    for token in ("/", "/wrong/", "//", "/%00/", "/%C3%A9/"):
        for path in ("", "mine/report.html"):
            answer, text = served(path, token=token)
            assert (answer.status, "mine" in text) == (403, False), token
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", "localhost:1", None):
        answer, text = served(host=host)
        assert (answer.status, "mine" in text) == (403, False), host
    assert served(host=f"localhost:{served.port}")[0].status == 200


ELSEWHERE = (
    *(
        "mine/run.yaml",
        "mine/../../secret.html",
        "../secret.html",
        "mine/%2e%2e/%2e%2e/secret.html",
    ),
    *("..%2fsecret.html", "/etc/passwd", "mine/", "mine", "mine/link.html", "mine/report.html/"),
    "mine//report.html",
)


def test_only_get_is_answered_and_only_with_pages_in_the_folders_of_runs(served, here):
    (here / "secret.html").write_text("secret")
    (here / "runs" / "mine" / "run.yaml").write_text("name: secret\n")
    (here / "runs" / "mine" / "link.html").symlink_to(here / "secret.html")
    for path in ELSEWHERE:
        answer, text = served(path)
        assert (answer.status, "secret" in text) == (404, False), path
    for method in ("POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        assert served(method=method)[0].status == 501, method


def test_it_listens_on_loopback_with_another_token_each_time(here):
    with RunServer(0) as one, RunServer(0) as two:
        assert one._server.server_address[0] == "127.0.0.1"
        tokens = {urlsplit(server.url).path for server in (one, two)}
        assert len(tokens) == 2
        assert all(len(token) > 30 for token in tokens)
        with pytest.raises(ConfigError, match=rf"--port={one.port} cannot be used"):
            RunServer(one.port)


@pytest.fixture
def browser(monkeypatch):
    """The addresses that a browser was to open."""
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(run_pages.webbrowser, "open", lambda url: opened.append(url) or True)
    return opened


def test_the_newest_page_of_a_run_or_of_all_runs_is_opened(here, browser):
    page("old", seconds=3e9)
    page("mine", "evolution.html", seconds=1e9)
    newest = page("mine")
    assert report().path == "runs/old/report.html"
    found = report("mine")
    assert (found.run, found.path, found.opened) == ("mine", "runs/mine/report.html", True)
    assert browser[-1] == newest.resolve().as_uri()


def test_without_a_display_the_path_is_printed(here, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)

    def no_browser():
        raise run_pages.webbrowser.Error("none")

    monkeypatch.setattr(run_pages.webbrowser, "get", no_browser)
    monkeypatch.setattr(run_pages.webbrowser, "open", None)
    page("mine")
    found = report("mine")
    assert (found.opened, found.view().line) == (False, "runs/mine/report.html")


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("record.jsonl", r"`cloudgan validate new --report=runs/new/report.html`"),
        ("coevolution.json", r"`cloudgan evolve --run=runs/new`"),
        ("search.json", r"`cloudgan search runs/new --show --report=runs/new/report.html`"),
    ],
)
def test_a_run_without_a_page_names_the_command_that_makes_it(here, file, command):
    folder = RunFolder("runs/new")
    folder.create()
    (folder.path / file).write_text("{}" if file.endswith("json") else "")
    with pytest.raises(ConfigError, match=f"runs/new has no page; {command}"):
        report("new")
    with pytest.raises(ConfigError, match="no run in runs/ has a page"):
        report()


# The report of a demo


def test_quality_metrics_are_a_curve_whose_caption_names_the_best_epoch():
    found = (
        validated(0, 0.2, metrics={"metric": 0.2, "hits": 0.3}, showers=300),
        validated(1, 0.25, metrics={"metric": 0.25, "hits": float("nan")}, best=False, showers=300),
    )
    (section,) = quality_sections(RunRecord(lines=found))
    (curve,) = section.blocks
    assert len(curve.data().rows) == 2
    assert "300 generated showers" in curve.caption
    assert "metric 0.25 after epoch 2, best 0.2 after epoch 1" in curve.caption


def test_a_run_without_validations_has_no_quality_section():
    assert quality_sections(RunRecord(lines=())) == ()
