from __future__ import annotations

import os
import socket
import urllib.request

import pytest


def test_no_credentials_proxy_or_cluster_of_this_machine_reaches_a_test():
    names = {name.upper() for name in os.environ}
    assert not names & {
        "AWS_ACCESS_KEY_ID",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HTTPS_PROXY",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_FILE",
        "TF_CONFIG",
    }


@pytest.mark.parametrize("host", ["192.0.2.1", "example.invalid", "2001:db8::1"])
def test_a_test_that_speaks_to_another_machine_fails(host):
    with pytest.raises(pytest.fail.Exception, match="this machine only"):
        socket.create_connection((host, 80), timeout=0.1)


def test_whoever_retries_on_errors_of_the_network_cannot_swallow_that():
    with pytest.raises(pytest.fail.Exception, match="this machine only"):
        urllib.request.urlopen("http://192.0.2.1/", timeout=0.1)


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            assert client.getpeername()[1] == port
