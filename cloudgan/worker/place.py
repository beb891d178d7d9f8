"""What the pod says about itself: this worker's place in a run, read from environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.config import RunConfig, parse_config
from cloudgan.core.errors import ConfigError
from cloudgan.core.heartbeat import configuration_digits
from cloudgan.core.plan import CLOUDS
from cloudgan.run_folder import RunFolder, read_yaml
from cloudgan.worker.peers import Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import CloudName

_MEANING = {
    "JOB_COMPLETION_INDEX": "this worker's number, from 0",
    "CLOUDGAN_WORLD": "how many workers there are",
    "CLOUDGAN_PEERS": "their addresses: JOB-{index}.SERVICE:2222, or a comma list",
    "CLOUDGAN_STORE": "the store, as gs://BUCKET/prefix or a folder",
    "CLOUDGAN_RUN": "the run's name",
    "CLOUDGAN_CONFIG": "path of its run.yaml",
    "CLOUDGAN_WORK": "a folder to write to",
}
_CLOUD, _METADATA = "CLOUDGAN_CLOUD", "CLOUDGAN_METADATA"


@dataclass(frozen=True)
class Place:
    """Who this worker is, and where everything lies.

    Attributes:
        peers: All workers' addresses, and which of them this is.
        store_url: Root of the store; a folder is absolute.
        run: Name of the run.
        config: What is wanted, as it was given.
        configuration: Sixteen hexadecimal digits of its text.
        work: A folder of this worker alone.
        cloud: Whose rented machine this is; None: nobody takes it away.
        metadata_url: Where that cloud's metadata service is; None: at its own address.
    """

    peers: Peers
    store_url: str
    run: str
    config: RunConfig
    configuration: str
    work: Path
    cloud: CloudName | None = None
    metadata_url: str | None = None

    @property
    def folder(self) -> RunFolder:
        """The run's folder on this machine."""
        return RunFolder(self.work / "runs" / self.run)

    @property
    def run_url(self) -> str:
        """Where the run's files are kept in the store."""
        return f"{self.store_url}/runs/{self.run}"


def read_place(variable: Callable[[str], str | None]) -> Place:
    """Reads the variables that a pod of a run has.

    Args:
        variable: Returns one of them, None where it is missing.

    Raises:
        ConfigError: One is missing or says nothing that we can use.
    """
    given = {name: variable(name) for name in _MEANING}
    if missing := [name for name, value in given.items() if not value]:
        told = "; ".join(f"{name} ({_MEANING[name]})" for name in missing)
        raise ConfigError(
            f"not set: {told}. `cloudgan worker` runs in the pods that `cloudgan deploy` starts;"
            " on this machine type `cloudgan train`"
        )
    found = {name: str(value) for name, value in given.items()}
    path = Path(found["CLOUDGAN_CONFIG"])
    config = parse_config(read_yaml(path), str(path))
    peers = Peers.parse(
        found["CLOUDGAN_PEERS"],
        world=_number("CLOUDGAN_WORLD", found["CLOUDGAN_WORLD"]),
        index=_number("JOB_COMPLETION_INDEX", found["JOB_COMPLETION_INDEX"]),
    )
    return Place(
        peers=peers,
        store_url=_absolute(found["CLOUDGAN_STORE"]),
        run=found["CLOUDGAN_RUN"],
        config=_for_one_worker(config, peers.world),
        configuration=configuration_digits(path.read_bytes()),
        work=Path(found["CLOUDGAN_WORK"]),
        cloud=_cloud(variable(_CLOUD)),
        metadata_url=variable(_METADATA),
    )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{name} is {text!r}; it is {_MEANING[name]}")
    return int(text)


def _cloud(name: str | None) -> CloudName | None:
    found = next((cloud for cloud in CLOUDS if cloud == name), None)
    if name and found is None:
        raise ConfigError(f"{_CLOUD} is {name!r}; it is one of {', '.join(CLOUDS)}, or not set")
    return found


def _absolute(store: str) -> str:
    """A folder is found from everywhere, whatever the present one is."""
    return store.rstrip("/") if ":" in store else str(Path(store).absolute())


def _for_one_worker(config: RunConfig, world: int) -> RunConfig:
    """What one process trains with: the others are in pods of their own, not its children."""
    strategy = config.training.strategy
    if world > 1 and strategy in {"one", "mirrored", "tpu"}:
        raise ConfigError(
            f"run.yaml asks for strategy {strategy!r}, which is one process, but there are {world}"
            " workers; use strategy auto or multiworker, or one node"
        )
    if world == 1 and strategy == "multiworker":
        strategy = "auto"
    training = config.training.model_copy(update={"workers": 1, "strategy": strategy})
    return config.model_copy(update={"training": training})
