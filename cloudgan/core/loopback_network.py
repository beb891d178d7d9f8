"""A network namespace with a loopback interface only, for processes that must not be reachable.

TensorFlow's server listens on 0.0.0.0 (`tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc`; no
option or variable names another address) and executes every graph that it receives, without
authentication (https://github.com/tensorflow/tensorflow/blob/master/SECURITY.md, "TensorFlow's
distributed runtime should be deployed only in trusted networks", read 2026-11-22). In a namespace of its
own (network_namespaces(7), user_namespaces(7)) only the processes of one run reach it.

``python -m cloudgan.core.loopback_network FD,FD COMMAND`` runs a command in a namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloudgan.core.errors import ConfigError
from cloudgan.core.settings import child_environment

# linux/sched.h, linux/sockios.h and linux/if.h; the same on all processors.
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_REQUEST: Final = struct.Struct("16sh22x")
_MODULE: Final = "cloudgan.core.loopback_network"
_CREATE: Final = "create"
_READY: Final = "ready"
_WITH_USER, _WITHOUT_USER = "user", "net"


class IsolationError(ConfigError):
    """This machine does not permit network namespaces."""


@dataclass(frozen=True)
class LoopbackNetwork:
    """A network namespace, kept by its file descriptors; no process needs to stay in it.

    Attributes:
        descriptors: Of the network namespace, and of its user namespace if it has its own.
    """

    descriptors: tuple[int, ...]

    @classmethod
    def create(cls) -> LoopbackNetwork:
        """Creates a namespace with its own 127.0.0.1: as root directly, else in a user namespace.

        Raises:
            IsolationError: The kernel or the container does not permit it.
        """
        if sys.platform != "linux":
            raise IsolationError(f"{sys.platform} has no network namespaces")
        with subprocess.Popen(  # noqa: S603  this module
            (sys.executable, "-m", _MODULE, _CREATE),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as holder:
            assert holder.stdin  # noqa: S101  it is a pipe
            assert holder.stdout  # noqa: S101
            first = holder.stdout.readline().strip()
            answer, _, kind = first.partition(" ")
            if answer != _READY:
                holder.stdin.close()
                raise IsolationError(first or "the process that creates a namespace died")
            names = ("net", "user") if kind == _WITH_USER else ("net",)
            places = [Path(f"/proc/{holder.pid}/ns/{name}") for name in names]
            found = tuple(os.open(place, os.O_RDONLY | os.O_CLOEXEC) for place in places)
            holder.stdin.close()
        return cls(found)

    @classmethod
    def parse(cls, text: str | None) -> LoopbackNetwork | None:
        """Returns the namespace whose inherited descriptors `text` lists; None for none."""
        return cls(tuple(int(part) for part in text.split(","))) if text else None

    @classmethod
    def check(cls, alternative: str) -> None:
        """Checks that namespaces are permitted, before anything is started.

        Args:
            alternative: What to run without several processes.
        """
        try:
            cls.create().close()
        except IsolationError as error:
            raise IsolationError(
                "several workers on this machine need TensorFlow's servers, which listen on all"
                f" its addresses and execute what any host sends; they cannot be isolated: {error}."
                f" Run {alternative}, or accept the risk with --allow-open-ports"
            ) from error

    def __str__(self) -> str:
        """Returns the descriptors as `parse` reads them."""
        return ",".join(map(str, self.descriptors))

    def command(self, command: Sequence[str]) -> list[str]:
        """Returns the command that runs `command` inside; start it with `pass_fds=descriptors`."""
        return [sys.executable, "-m", _MODULE, str(self), *command]

    def close(self) -> None:
        """Closes the descriptors; the namespace ends with its last process."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def _create() -> str:
    """Moves this process into a new namespace; returns whether that includes a user namespace."""
    user, group = os.geteuid(), os.getegid()
    kind = _WITHOUT_USER
    if user != 0 or not _try_unshare(_NEW_NET):
        kind = _WITH_USER
        _unshare(_NEW_USER | _NEW_NET)
        # The same IDs inside and outside: files keep their owners.
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, _SET_FLAGS, _REQUEST.pack(b"lo", _UP))
        _, flags = _REQUEST.unpack(fcntl.ioctl(one, _GET_FLAGS, _REQUEST.pack(b"lo", 0)))
    if not flags & _UP:
        raise OSError("the loopback interface of the namespace is down")
    return kind


def _try_unshare(flags: int) -> bool:
    try:
        _unshare(flags)
    except OSError:
        return False
    return True


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        _raise_errno("unshare")


def _enter(descriptors: Sequence[int]) -> None:
    """Moves this process into the namespaces; the user namespace gives the right to the other."""
    libc = ctypes.CDLL(None, use_errno=True)
    for descriptor in reversed(descriptors):
        if libc.setns(descriptor, 0):
            _raise_errno("setns")
        os.close(descriptor)


def _raise_errno(call: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{call}: {os.strerror(number)}")


def _main(arguments: Sequence[str]) -> None:
    if arguments[0] == _CREATE:
        try:
            kind = _create()
        except OSError as error:
            sys.exit(f"network namespaces are not permitted here ({error.strerror or error})")
        sys.stdout.write(f"{_READY} {kind}\n")
        sys.stdout.flush()
        sys.stdin.read()  # until the parent has opened the namespaces
        return
    descriptors, *command = arguments
    _enter([int(part) for part in descriptors.split(",")])
    os.execvp(command[0], command)  # noqa: S606  the command of the caller


if __name__ == "__main__":
    _main(sys.argv[1:])
