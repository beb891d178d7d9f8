"""Where the workers of a run are, and which of them this one is."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import ConfigError
from cloudgan.training.cluster import read_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

_INDEX = "{index}"
_MOST_PORT = 65534  # the control port is the next one


@dataclass(frozen=True)
class Peers:
    """Addresses of all workers, ``host:port`` of TensorFlow's server, by index."""

    addresses: tuple[str, ...]
    index: int

    @classmethod
    def parse(cls, text: str, *, world: int, index: int) -> Peers:
        """Takes a template with ``{index}`` in it, or as many addresses as there are workers.

        Raises:
            ConfigError: There are too few or too many, or one is no address.
        """
        if world < 1:
            raise ConfigError(f"CLOUDGAN_WORLD is {world}; a run has at least one worker")
        if not 0 <= index < world:
            raise ConfigError(
                f"JOB_COMPLETION_INDEX is {index}, but CLOUDGAN_WORLD is {world}: indices go from 0"
                f" to {world - 1}"
            )
        if _INDEX in text and "," not in text:
            found = [text.replace(_INDEX, str(number)) for number in range(world)]
        else:
            found = [part.strip() for part in text.split(",")]
        if len(found) != world or len(set(found)) != world:
            raise ConfigError(
                f"CLOUDGAN_PEERS {text!r} names {len(set(found))} workers, CLOUDGAN_WORLD says"
                f" {world}; write JOB-{_INDEX}.SERVICE:2222, or {world} addresses with commas between"
            )
        peers = cls(tuple(found), index)
        for number in range(world):
            peers.control(number)
        return peers

    @property
    def world(self) -> int:
        """How many workers there are."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this one leads."""
        return self.index == 0

    def control(self, index: int) -> tuple[str, int]:
        """Host and port where the parent of worker `index` answers: the port after TensorFlow's."""
        address = self.addresses[index]
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit()):
            raise ConfigError(f"CLOUDGAN_PEERS: {address!r} is no address such as host:2222")
        if not 0 < int(port) <= _MOST_PORT:
            raise ConfigError(f"CLOUDGAN_PEERS: {address!r}: ports go from 1 to {_MOST_PORT}")
        return host.strip("[]"), int(port) + 1

    def listening_host(self) -> str:
        """Where this one's own parent listens: everywhere, but on this machine only if named so."""
        host, _ = self.control(self.index)
        with contextlib.suppress(ValueError):
            return host if ipaddress.ip_address(host).is_loopback else ""
        return host if host == "localhost" else ""

    def tf_config(self) -> str | None:
        """TF_CONFIG of the training process; None for a worker that is alone."""
        if self.world == 1:
            return None
        task = {"type": "worker", "index": self.index}
        text = json.dumps({"cluster": {"worker": list(self.addresses)}, "task": task})
        read_cluster(text)
        return text


class Names:
    """Which of the workers' names resolve; one that did is not asked again until `forget`."""

    def __init__(self, peers: Peers, look_up: Callable[..., Any] = socket.getaddrinfo) -> None:
        self._peers, self._look_up = peers, look_up
        self._unknown: set[int] = set()
        self.forget()

    def forget(self) -> None:
        """A worker that is replaced gets another address."""
        self._unknown = set(range(self._peers.world))

    def unresolved(self) -> tuple[int, ...]:
        """Asks for the names that are not known yet; returns whose still are not."""
        for index in sorted(self._unknown):
            with contextlib.suppress(OSError):
                self._look_up(*self._peers.control(index))
                self._unknown.discard(index)
        return tuple(sorted(self._unknown))
