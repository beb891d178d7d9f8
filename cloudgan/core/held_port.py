"""Ports that are kept from other processes until the server that gets them listens.

A port that was only found free can be taken before TensorFlow, which imports for seconds, binds it.
TensorFlow takes no bound socket, but shares its port with SO_REUSEPORT if a variable says so
(`tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc`; https://github.com/tensorflow/tensorflow/pull/38705,
read 2026-11-25). A held socket does not listen, so all connections reach the server; only processes of the
same user that ask for SO_REUSEPORT could bind the port, too (socket(7)).
"""

from __future__ import annotations

import socket
from typing import Final

SHARED: Final = {"TF_GRPC_REUSE_PORT": "true"}
"""Environment of a process whose TensorFlow gets a held port."""


def hold_port(host: str = "", port: int = 0) -> socket.socket:
    """Returns a socket that holds a port until it is closed.

    Args:
        host: Address to bind; empty: all of IPv4.
        port: Number; 0: a free one.

    Raises:
        OSError: Another process has the port.
    """
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.bind((host, port))  # before it may be shared: it shares no other server's port
    except OSError:
        held.close()
        raise
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


def number_of(held: socket.socket) -> int:
    """Returns the number of a held port."""
    return int(held.getsockname()[1])
