"""Concurrent queries of several clouds, and detection of the cloud of this machine."""

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cloudgan.core import settings
from cloudgan.core.errors import CredentialsError
from cloudgan.launch.operations.cloud_queries import disable_unless_reachable, run_concurrently

SET = ("NO_GCE_CHECK", "AWS_EC2_METADATA_DISABLED", "CLOUDGAN_NO_METADATA_SERVER")


@pytest.fixture(autouse=True)
def somewhere(monkeypatch):
    """A machine without settings of clouds in its environment; restores it afterwards."""
    for name in SET:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(403)

    def log_message(self, *_):
        pass


def test_sdks_may_use_a_metadata_server_that_gives_any_answer():
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert disable_unless_reachable(server.server_address, seconds=5)
    assert settings.may_ask_metadata_server()
    assert not {*SET} & {*os.environ}


def test_where_none_is_or_none_answers_sdks_are_kept_from_waiting():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not disable_unless_reachable(silent.getsockname(), seconds=0.05)
    assert all(os.environ[name] == "true" for name in SET)
    assert not settings.may_ask_metadata_server()


def test_what_the_environment_says_is_not_asked_again(monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    assert disable_unless_reachable(("192.0.2.1", 80))
    monkeypatch.delenv("GCE_METADATA_HOST")
    for name in SET[:2]:
        monkeypatch.setenv(name, "true")
    assert not disable_unless_reachable(("192.0.2.1", 80))


@pytest.mark.parametrize("said", ["", "1", "yes", "True"])
def test_a_disabled_probe_is_disabled_for_each_sdk_however_it_was_written(monkeypatch, said):
    for name in SET[:2]:
        monkeypatch.setenv(name, said or "true")
    monkeypatch.setenv(SET[2], said)
    assert not disable_unless_reachable(("192.0.2.1", 80))
    assert all(os.environ[name] == "true" for name in SET)
    assert not settings.may_ask_metadata_server()


def test_an_explicit_no_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv(SET[1], "false")
    settings.disable_metadata_servers()
    assert [os.environ[name] for name in SET] == ["true", "false", "true"]


def test_all_are_asked_at_once_and_answers_keep_their_order():
    meet = threading.Barrier(3, timeout=5)
    said = run_concurrently(("b", "c", "a"), lambda name: (meet.wait(), name.upper())[1])
    assert list(said.items()) == [("b", "B"), ("c", "C"), ("a", "A")]


def test_one_that_fails_leaves_the_others_alone():
    def ask(name):
        if name == "aws":
            raise CredentialsError("no login")
        return name

    said = run_concurrently(("aws", "gcp"), ask)
    assert str(said["aws"]) == "no login"
    assert said["gcp"] == "gcp"


def test_one_that_is_silent_is_not_waited_for():
    never = threading.Event()
    said = run_concurrently(("aws", "gcp"), lambda name: name == "gcp" or never.wait(), 0.1)
    never.set()
    assert str(said["aws"]) == "aws did not answer within 0 s; try again"
    assert said["gcp"] is True


def test_a_fault_of_our_own_is_no_answer_of_a_cloud():
    with pytest.raises(ZeroDivisionError):
        run_concurrently(("gcp",), lambda name: 1 / 0)
