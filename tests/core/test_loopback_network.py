"""Network namespaces: a server inside is not reachable from outside."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from cloudgan.core import loopback_network
from cloudgan.core.loopback_network import IsolationError, LoopbackNetwork

SERVER = """
import socket
with socket.socket() as one:
    one.bind(("0.0.0.0", 0))
    one.listen()
    print(one.getsockname()[1], flush=True)
    connection, _ = one.accept()
    print(connection.recv(9).decode(), flush=True)
"""
CLIENT = (
    "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).send(b'hello')"
)


@pytest.fixture
def network():
    made = LoopbackNetwork.create()
    yield made
    made.close()


def inside(network, *arguments):
    return subprocess.Popen(
        network.command([sys.executable, "-c", *arguments]),
        pass_fds=network.descriptors,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_server_on_all_addresses_is_reachable_only_from_inside(network):
    with inside(network, SERVER) as server:
        port = server.stdout.readline().strip()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)), timeout=5)
        with inside(network, CLIENT, port) as client:
            assert client.wait(20) == 0
        assert server.stdout.readline() == "hello\n"


def test_processes_inside_have_no_other_interface(network):
    with inside(network, "import socket; print(socket.if_nameindex())") as process:
        assert process.stdout.read() == "[(1, 'lo')]\n"


def test_files_keep_their_owners(network, tmp_path):
    path = tmp_path / "file"
    with inside(
        network, "import os, sys; open(sys.argv[1], 'w'); print(os.getuid())", str(path)
    ) as process:
        assert process.stdout.read() == f"{os.getuid()}\n"
    assert path.stat().st_uid == os.getuid()


def test_the_descriptors_pass_through_an_environment_variable(network):
    assert LoopbackNetwork.parse(str(network)) == network
    assert LoopbackNetwork.parse(None) is None


def test_a_machine_without_namespaces_is_named_with_the_alternative(monkeypatch):
    monkeypatch.setattr(loopback_network.sys, "platform", "darwin")
    with pytest.raises(
        IsolationError, match=r"no network namespaces.* Run less, or .*--allow-open-ports"
    ):
        LoopbackNetwork.check("less")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_kernel_that_permits_no_namespaces_is_reported():
    limit = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    create = "from cloudgan.core.loopback_network import LoopbackNetwork as N; N.create()"
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            limit,
            "sh",
            sys.executable,
            "-c",
            create,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not permitted here (unshare: No space left on device)" in done.stderr


def test_the_reason_of_a_failure_is_reported(monkeypatch):
    monkeypatch.setattr(loopback_network, "_MODULE", "cloudgan.no_such_module")
    with pytest.raises(IsolationError, match="No module named"):
        LoopbackNetwork.create()
