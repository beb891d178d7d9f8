"""From flags to what is trained, how fast that goes, and what it has cost until now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cloudgan.cli.launch_showers import PAPER_SHOWERS
from cloudgan.cli.place import RUNS
from cloudgan.cli.run_options import resolve
from cloudgan.core import launch, settings
from cloudgan.core.clock import utc_moment
from cloudgan.core.labels import checked_name, spec_digits
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, paper_measurements
from cloudgan.launching.ledger import spent_usd

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Showers, Workers
    from cloudgan.cost.elsewhere import Speeds
    from cloudgan.run_folder import RunFolder

Training = tuple[dict[str, Any], str | None]
"""As `training_flags` returns it."""


def config_of(
    name: str | None, training: Training, workers: Workers, *, global_batch: int | None = None
) -> RunConfig:
    """Returns what the workers of a run are to do.

    Args:
        name: Of the run; None: one that says what it is.
        training: As asked.
        workers: That do it.
        global_batch: That the number of workers may not change; None: it is as asked.

    Raises:
        ConfigError: It is not possible.
    """
    asked, file = training
    asked = asked | {
        "training.strategy": "multiworker" if workers.nodes > 1 else None,
        "training.workers": workers.nodes if workers.nodes > 1 else None,
        "training.threads": max(1, int(workers.cpus)),
    }
    if global_batch is not None:
        asked |= {"training.global_batch_size": global_batch, "training.batch_per_replica": None}
    if name is None:
        config, _ = resolve(asked, config=file, run=None, fresh=True)
        digits = spec_digits(config.mathematics() | {"nodes": workers.nodes})[:6]
        name = f"{config.model.preset}-{digits}"
    config, _ = resolve(asked, config=file, run=str(RUNS / checked_name(name)), fresh=True)
    return config


def speeds_of(config: RunConfig, showers: Showers) -> Speeds:
    """Returns what is known of the speed of a configuration's network."""
    network = config.model.networks
    known = paper_measurements() if network == PAPER_NETWORK else ()
    return speeds(network, showers.records or PAPER_SHOWERS, known)


def spent_before(folder: RunFolder) -> float:
    """Returns what all attempts at a run cost until now, in USD."""
    path = folder.launch_file
    return spent_usd(launch.read(path), utc_moment().timestamp()) if path.exists() else 0.0


def store_port(store: str) -> int:
    """Returns the port of a store: one of one's own, such as MinIO, is where AWS_ENDPOINT_URL says."""
    endpoint = settings.variable("AWS_ENDPOINT_URL_S3") or settings.variable("AWS_ENDPOINT_URL")
    if not store.startswith("s3://") or not endpoint:
        return 443
    found = urlsplit(endpoint)
    return found.port or (80 if found.scheme == "http" else 443)
