"""CONNECT proxy from Azure's host names to servers on this machine."""

from __future__ import annotations

import contextlib
import fnmatch
import socket
import threading
from collections.abc import Mapping

from emulators.http import Answer, Asked, HttpServer


class Gate(HttpServer):
    """Connects each known name (`*` is any part of it) to its port, and refuses others."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self.ports = dict(ports)
        self.refused: list[str] = []
        super().__init__(self._lead)

    def _lead(self, asked: Asked) -> Answer:
        name = asked.target.rpartition(":")[0]
        port = next((self.ports[one] for one in self.ports if fnmatch.fnmatch(name, one)), None)
        if port is None or asked.method != "CONNECT":
            self.refused.append(name)
            return Answer(403)
        return Answer(200, takes_over=lambda connection: _connect(connection, port))


def _connect(connection: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as there:
        back = threading.Thread(target=_pour, args=(there, connection), daemon=True)
        back.start()
        _pour(connection, there)
        back.join()


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
