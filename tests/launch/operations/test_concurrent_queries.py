"""Concurrent queries of several clouds."""

import threading

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.operations.concurrent_queries import run_concurrently


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
