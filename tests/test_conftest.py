from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request

import pytest

AMBIENT = {
    "AWS_PROFILE": "mine",
    "GOOGLE_APPLICATION_CREDENTIALS": "mine.json",
    "https_proxy": "http://192.0.2.1:3128",
    "REQUESTS_CA_BUNDLE": "mine.pem",
    "TF_CONFIG": "{}",
}


def test_no_ambient_variable_is_left():
    assert not set(AMBIENT) & set(os.environ)


def test_no_credentials_proxy_or_cluster_of_this_machine_reaches_a_test():
    test = f"{__file__}::test_no_ambient_variable_is_left"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        env=os.environ | AMBIENT,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "example.invalid", "2001:db8::1"])
def test_a_test_that_connects_to_another_machine_fails(host):
    with pytest.raises(pytest.fail.Exception, match="this machine only"):
        socket.create_connection((host, 80), timeout=0.1)


def test_an_address_is_refused_as_a_name_is():
    with (
        socket.socket() as one,
        pytest.raises(pytest.fail.Exception, match="this machine only"),
    ):
        one.connect(("192.0.2.1", 80))


def test_code_that_retries_on_network_errors_cannot_catch_that():
    with pytest.raises(pytest.fail.Exception, match="this machine only"):
        urllib.request.urlopen("http://192.0.2.1/", timeout=0.1)
