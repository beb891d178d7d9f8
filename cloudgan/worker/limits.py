"""How long a worker waits for what; the flags of `cloudgan worker` and what tests make shorter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Patience, in seconds, and how often it looks.

    Attributes:
        barrier_seconds: For all workers to be there.
        first_step_seconds: For a training process to finish its first steps.
        stall_seconds: For the next steps, or `stall_medians` times what they usually take.
        grace_seconds: From SIGTERM to the end of the pod.
        end_seconds: For a training process to end by itself once the others wait.
        silence_seconds: Without an answer of the chief.
        ship_seconds: To bring the last files to the store.
        notice_every_seconds: Between two looks for a cloud's notice; None: as that cloud asks for.
    """

    barrier_seconds: float = 600.0
    first_step_seconds: float = 900.0
    stall_seconds: float = 120.0
    stall_medians: float = 20.0
    grace_seconds: float = 15.0
    end_seconds: float = 15.0
    silence_seconds: float = 20.0
    ship_seconds: float = 20.0
    fresh_seconds: float = 5.0
    join_every_seconds: float = 1.0
    resolve_every_seconds: float = 2.0
    record_every_seconds: float = 2.0
    heartbeat_every_seconds: float = 15.0
    log_every_seconds: float = 60.0
    store_retry_seconds: float = 5.0
    notice_every_seconds: float | None = None
    dump_seconds: float = 2.0
    poll_seconds: float = 0.1
    most_restarts: int = 3

    @property
    def child_grace_seconds(self) -> float:
        """What of the grace the training process has; the rest is for the last files."""
        return self.child_share_seconds(self.grace_seconds)

    def child_share_seconds(self, left_seconds: float) -> float:
        """What of some time that is left the training process has."""
        return 0.6 * left_seconds
