"""A program is killed at the given call, and at no other."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from crashing import DIED, moments, run_killed


@pytest.fixture
def server():
    """Records the requested paths."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", asked
    made.shutdown()
    made.server_close()


def ask_thrice(address):
    def program():
        with urllib3.PoolManager() as pool:
            for number in range(3):
                pool.request("GET", f"{address}/{number}")

    return program


def test_an_undisturbed_program_ends_well_and_its_calls_are_known(server, tmp_path):
    address, asked = server
    done = run_killed(ask_thrice(address), tmp_path)
    assert (done.code, done.calls) == (0, ("GET /0", "GET /1", "GET /2"))
    assert asked == ["/0", "/1", "/2"]


@pytest.mark.parametrize(("when", "reached"), [("before", ["/0"]), ("after", ["/0", "/1"])])
def test_it_dies_before_the_server_is_asked_or_after_it_acted(server, tmp_path, when, reached):
    address, asked = server
    assert run_killed(ask_thrice(address), tmp_path, 1, when).code == DIED
    assert asked == reached


def test_a_program_that_raises_is_no_crash(tmp_path):
    def program():
        raise ValueError("of its own")

    done = run_killed(program, tmp_path)
    assert done.code == 1
    assert "ValueError: of its own" in done.said


def test_where_nothing_changes_in_between_a_death_there_is_the_same_death():
    calls = ["GET /a", "POST /b", "CreateCluster", "ListClusters", "DELETE /b"]
    assert moments(calls, at_each=False) == [
        (0, "before"),
        (1, "after"),
        (2, "after"),
        (4, "after"),
    ]
    everywhere = moments(calls, at_each=True)
    assert len(everywhere) == 10
    assert (3, "before") in everywhere
