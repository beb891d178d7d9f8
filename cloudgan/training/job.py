"""What a training process is about to do, as far as it is known before TensorFlow is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.config import DEFAULT_BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.record import Numerics
    from cloudgan.training.candidates import Machine
    from cloudgan.training.cluster import Cluster

# Rough, and rather low: who is unsure whether a run is long does not begin to try.
_CORE_SECONDS_PER_SHOWER = {"paper": 0.4, "fixed25": 0.2, "mini": 0.003, "smoke": 0.0005}
_CORES_PER_GPU = 200


@dataclass(frozen=True)
class Job:
    """What a process is about to do.

    Attributes:
        config: What is wanted.
        saved: What the newest checkpoint says; None for a new run.
        showers: How many there are, held-back ones included.
        is_alone: Whether it is the only process of its run.
    """

    config: RunConfig
    saved: Numerics | None
    showers: int
    is_alone: bool

    @property
    def replicas(self) -> int:
        """Replicas of this process that were asked for; one where nothing was."""
        return self.config.training.replicas or 1

    @property
    def batch_per_replica(self) -> int:
        """Showers per replica and step."""
        training = self.config.training
        if training.global_batch_size:
            return max(1, training.global_batch_size // (self.replicas * training.workers))
        return training.batch_per_replica or DEFAULT_BATCH[self.config.model.networks]

    def expected_seconds(self, machine: Machine) -> float:
        """Roughly how long it trains, rather too short."""
        training = self.config.training
        passed = self.showers * (1 - self.config.data.held_back_fraction) * training.epochs
        batch = self.batch_per_replica * self.replicas
        passed = min(passed, (training.max_steps or passed) * batch)
        speed = machine.gpus * _CORES_PER_GPU or machine.cores
        seconds = passed * _CORE_SECONDS_PER_SHOWER[self.config.model.networks] / speed
        return min(seconds, training.max_seconds or seconds)


def job_of(config: RunConfig, checkpoints: Path, *, showers: int, cluster: Cluster | None) -> Job:
    """Returns what a process of a run is about to do.

    Args:
        config: What is wanted.
        checkpoints: Folder of the run's checkpoints; the newest is fetched where a bucket has it.
        showers: How many there are, held-back ones included.
        cluster: This process' place; None when it is alone.

    Raises:
        StoreError: The bucket of checkpoints could not be read.
    """
    # NumPy comes with it, and a base installation has none but explains every command.
    from cloudgan.training.checkpoint import Checkpoints, read_state  # noqa: PLC0415

    latest = Checkpoints(
        checkpoints, keep=config.checkpoint.keep, url=config.checkpoint.url
    ).latest()
    saved = read_state(latest).numerics if latest else None
    return Job(config, saved, showers, is_alone=cluster is None or len(cluster.workers) == 1)
