"""CONNECT proxy from Azure's host names to servers on this machine."""

from __future__ import annotations

import contextlib
import fnmatch
import socket
import socketserver
import threading
from collections.abc import Mapping
from typing import Any


class Gate:
    """Listens on loopback; connects each known name (`*` is any part of it) to its port, and refuses others."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        gate = self
        self.ports = dict(ports)
        self.refused: list[str] = []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                gate.lead(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def lead(self, asked: Any) -> None:
        """Handles CONNECT requests."""
        line = asked.rfile.readline().decode()
        while asked.rfile.readline().strip():
            pass
        name = line.split()[1].rpartition(":")[0] if line.startswith("CONNECT ") else line
        port = next((self.ports[one] for one in self.ports if fnmatch.fnmatch(name, one)), None)
        if port is None:
            self.refused.append(name)
            asked.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as there:
            asked.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_pour, args=(there, asked.connection), daemon=True)
            back.start()
            _pour(asked.connection, there)
            back.join()


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
