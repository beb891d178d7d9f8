"""Environment variables of a pod: this worker's index, its peers, and its folders."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core import settings
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.run_secret import RunSecret, take_variables
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.heartbeat import config_hash
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.cluster import read_cluster

_REQUIRED = {
    "JOB_COMPLETION_INDEX": "index of this worker, from 0",
    "CLOUDGAN_WORLD": "number of workers",
    "CLOUDGAN_PEERS": "addresses of the workers: JOB-{index}.SERVICE:2222 or a comma-separated list",
    "CLOUDGAN_STORE": "URL of the store, such as gs://BUCKET/prefix or a folder",
    "CLOUDGAN_RUN": "name of the run",
    "CLOUDGAN_CONFIG": "path of run.yaml",
    "CLOUDGAN_WORK": "writable folder",
}
_CLOUD, _SECRET = "CLOUDGAN_CLOUD", "CLOUDGAN_SECRET_FILE"


@dataclass(frozen=True)
class PodEnvironment:
    """Identity and folders of this worker.

    `store_url` has an absolute path if it is a folder; `work` is of this worker only. Without a cloud the
    node is a preexisting one; without a metadata URL it is the cloud's. One worker needs no secret.
    `network` is the namespace of the trainers, None: that of the workers. `smoke_step`: devices and network
    are tried before the data are staged; `random_ports`: TensorFlow's servers use ports that the workers
    agree on.
    """

    peers: Peers
    store_url: str
    run: str
    config: RunConfig
    config_hash: str
    work: Path
    cloud: str | None = None
    metadata_url: str | None = None
    secret: RunSecret | None = None
    network: LoopbackNetwork | None = None
    random_ports: bool = False
    smoke_step: bool = False

    @property
    def folder(self) -> RunFolder:
        """The run's local folder."""
        return RunFolder(self.work / "runs" / self.run)

    @property
    def run_url(self) -> str:
        """URL of the run's files in the store."""
        return f"{self.store_url}/runs/{self.run}"


def read_pod_environment(variable: Callable[[str], str | None]) -> PodEnvironment:
    """Reads the environment variables of a pod."""
    found = {name: variable(name) or "" for name in _REQUIRED}
    if missing := [f"{name} ({_REQUIRED[name]})" for name in found if not found[name]]:
        raise ConfigError(
            f"not set: {'; '.join(missing)}. `cloudgan worker` runs in the pods of `cloudgan"
            " deploy`; on this machine run `cloudgan train`"
        )
    path = Path(found["CLOUDGAN_CONFIG"])
    config = parse_config(read_yaml(path), str(path))
    peers = Peers.parse(
        found["CLOUDGAN_PEERS"],
        world=_number("CLOUDGAN_WORLD", found["CLOUDGAN_WORLD"]),
        index=_number("JOB_COMPLETION_INDEX", found["JOB_COMPLETION_INDEX"]),
    )
    take_variables(variable, variable(_SECRET))
    if (cloud := variable(_CLOUD) or None) not in (None, *CLOUDS):
        raise ConfigError(f"{_CLOUD} is {cloud!r}; valid: {', '.join(CLOUDS)}, or not set")
    is_alone = not config.works_together
    is_one_machine = peers.world == 1 or peers.listening_host()
    secret, store = None, found["CLOUDGAN_STORE"]
    if peers.world > 1 and not is_alone:
        if not (secret_file := variable(_SECRET)):
            raise ConfigError(
                f"{_SECRET} is not set: several workers need the secret of their run. `cloudgan deploy`"
                " sets it"
            )
        secret = RunSecret.read(Path(secret_file))
    return PodEnvironment(
        peers=peers,
        store_url=store.rstrip("/") if ":" in store else str(Path(store).absolute()),
        run=found["CLOUDGAN_RUN"],
        config=_for_one_worker(config, peers.world),
        config_hash=config_hash(path.read_bytes()),
        work=Path(found["CLOUDGAN_WORK"]),
        cloud=cloud,
        metadata_url=variable("CLOUDGAN_METADATA"),
        secret=secret,
        network=LoopbackNetwork.parse(variable("CLOUDGAN_NETWORK")),
        random_ports=variable("CLOUDGAN_PORTS") == "random",
        smoke_step=not is_alone
        and (settings.planned_accelerators(variable) > 0 or not is_one_machine),
    )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{name} is {text!r}; it must be an integer: {_REQUIRED[name]}")
    return int(text)


def _for_one_worker(config: RunConfig, world: int) -> RunConfig:
    """Returns the configuration of one process; the other workers run in other pods."""
    strategy = config.training.strategy
    if world > 1 and not config.has_ranks and strategy in {"one", "mirrored", "tpu"}:
        raise ConfigError(
            f"strategy {strategy!r} in run.yaml has one process, but the run has {world}"
            " workers; set strategy to auto or multiworker, or use one node"
        )
    if world == 1 and strategy == "multiworker":
        strategy = "auto"
    training = config.training.model_copy(update={"workers": 1, "strategy": strategy})
    return config.model_copy(update={"training": training})


_INDEX = "{index}"
_MOST_PORT = 65534  # the control port is the next one


@dataclass(frozen=True)
class Peers:
    """Addresses of all workers by index: ``host:port`` of TensorFlow's server."""

    addresses: tuple[str, ...]
    index: int

    @classmethod
    def parse(cls, text: str, *, world: int, index: int) -> Peers:
        """Parses a template with ``{index}``, or one address per worker."""
        if world < 1:
            raise ConfigError(f"CLOUDGAN_WORLD is {world}; it must be at least 1")
        if not 0 <= index < world:
            raise ConfigError(
                f"JOB_COMPLETION_INDEX is {index}, but CLOUDGAN_WORLD is {world}; valid: 0"
                f" to {world - 1}"
            )
        if _INDEX in text and "," not in text:
            found = [text.replace(_INDEX, str(number)) for number in range(world)]
        else:
            found = [part.strip() for part in text.split(",")]
        if len(found) != world or len(set(found)) != world:
            raise ConfigError(
                f"CLOUDGAN_PEERS {text!r} has {len(set(found))} addresses, but CLOUDGAN_WORLD is"
                f" {world}; write JOB-{_INDEX}.SERVICE:2222, or {world} addresses separated by commas"
            )
        peers = cls(tuple(found), index)
        for number in range(world):
            peers.control(number)
        return peers

    @property
    def world(self) -> int:
        """Number of workers."""
        return len(self.addresses)

    def alone(self) -> Peers:
        """Returns this worker as the only one."""
        return Peers((self.addresses[self.index],), 0)

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the chief (index 0)."""
        return self.index == 0

    def control(self, index: int) -> tuple[str, int]:
        """Returns host and port of a worker's control server: the port after TensorFlow's."""
        address = self.addresses[index]
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit()):
            raise ConfigError(f"CLOUDGAN_PEERS: {address!r} is not an address such as host:2222")
        if not 0 < int(port) <= _MOST_PORT:
            raise ConfigError(
                f"CLOUDGAN_PEERS: {address!r} has an invalid port; valid: 1 to {_MOST_PORT}"
            )
        return host.strip("[]"), int(port) + 1

    def listening_host(self) -> str:
        """Returns the address to listen on: loopback if the peer address is, else all interfaces."""
        host, _ = self.control(self.index)
        with contextlib.suppress(ValueError):
            return host if ipaddress.ip_address(host).is_loopback else ""
        return host if host == "localhost" else ""

    def tf_config(self, ports: tuple[int, ...] = ()) -> str | None:
        """Returns TF_CONFIG of the trainer; None for a single worker."""
        if self.world == 1:
            return None
        task = {"type": "worker", "index": self.index}
        workers = list(self.addresses)
        if ports:
            hosts = (address.rpartition(":")[0] for address in workers)
            workers = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
        text = json.dumps({"cluster": {"worker": workers}, "task": task})
        read_cluster(text)
        return text
