"""What this worker is doing: written by its main loop, read by those who ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cloudgan.core.heartbeat import Phase
    from cloudgan.core.pulse import Pulse
    from cloudgan.worker.metadata import Notice


class Standing(NamedTuple):
    """Phase and generation, which change together, and whether the machine is taken away.

    Attributes:
        generation: The last one in which this worker trained.
        notice: Of the cloud; None while there is none.
    """

    phase: Phase
    generation: int
    notice: Notice | None = None


@dataclass
class WorkerState:
    """The present of one worker; each attribute is replaced as a whole."""

    index: int
    world: int
    incarnation: str
    standing: Standing = field(default_factory=lambda: Standing("staging", 0))
    pulse: Pulse | None = None
    missing: tuple[int, ...] = ()
    restarts: int = 0
    exit_code: int | None = None
    sentence: str = ""

    def enter(self, phase: Phase, generation: int | None = None) -> None:
        """Enters a phase, and perhaps a generation."""
        number = self.standing.generation if generation is None else generation
        self.standing = self.standing._replace(phase=phase, generation=number)

    def take(self, notice: Notice) -> None:
        """Notes that the machine is taken away."""
        self.standing = self.standing._replace(notice=notice)

    def shown(self) -> dict[str, Any]:
        """What everybody may know."""
        return {
            "index": self.index,
            "world": self.world,
            "incarnation": self.incarnation,
            "phase": self.standing.phase,
            "generation": self.standing.generation,
            "step": self.pulse.step if self.pulse else None,
            "exit_code": self.exit_code,
        }
