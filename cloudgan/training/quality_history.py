"""What the validations of a run showed: the best checkpoint, and whether training should end.

The next checkpoint stores it, so that a resumed run decides as one that was never interrupted. Imports no
TensorFlow: the master of a run with ranks uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cloudgan.core.clock import utc_now
from cloudgan.schema.record import Validated

if TYPE_CHECKING:
    from cloudgan.schema.training_config import TrainingConfig
    from cloudgan.training.checkpoint import BestCheckpoint, State


class QualityHistory:
    """Ranks validated checkpoints and applies the stop criterion and the early stop.

    Attributes:
        best: Best validated checkpoint; None before the first validation.
        validated_step: Step of the last validation; 0: none.
    """

    def __init__(self, training: TrainingConfig, saved: State | None) -> None:
        """Continues from the checkpoint `saved`; None: a new run."""
        self._until, self._ranking = training.until, training.ranking
        self._early_stop = training.early_stop
        self.best: BestCheckpoint | None = saved.best if saved else None
        self.validated_step = saved.validated_step if saved else 0
        self._recent = saved.recent if saved else ()

    def state(self) -> dict[str, Any]:
        """Returns its part of a checkpoint's `State`."""
        return {
            "best": self.best,
            "validated_step": self.validated_step,
            "recent": self._recent,
        }

    @property
    def stop(self) -> Literal["reached", "plateau"] | None:
        """Why training should end; None: it should not."""
        if self._until and self.best and self._ranking.holds(self.best.metrics):
            return "reached"
        early = self._early_stop
        return "plateau" if early and early.is_over(self._recent, self._ranking) else None

    def add(
        self, found: BestCheckpoint, *, showers: int, seconds: float, program_seconds: float
    ) -> Validated:
        """Adds a validation; returns its line of the record.

        Args:
            found: Step, epoch and metrics.
            showers: Compared.
            seconds: Of the validation.
            program_seconds: Of the program until now.
        """
        is_best = found.is_better_than(self.best, self._ranking)
        self.best = found if is_best else self.best
        self.validated_step = found.step
        smoothed: float | None = None
        # With ranks an epoch that ended before the stop is still validated; the decision holds.
        if self._early_stop and self.stop != "plateau":
            kept = (*self._recent, found.metrics)
            self._recent = kept[-self._early_stop.first_stop :]
            smoothed = self._newest_median()
        return Validated(
            time=utc_now(),
            step=found.step,
            epoch=found.epoch,
            showers=showers,
            metrics=found.metrics,
            seconds=seconds,
            ranked_by=self._ranking.name,
            best=is_best,
            until=self._until,
            reached=bool(self._until) and self._ranking.holds(found.metrics),
            smoothed=smoothed,
            plateau=self.stop == "plateau",
            program_seconds=program_seconds,
        )

    def stop_message(self) -> str:
        """Returns how close the run came to its stop criterion, or why it stopped early; else empty."""
        best = "no epoch was validated"
        if self.best:
            best = f"the best is {self._best_text()} (step {self.best.step})"
        early = self._early_stop
        if self.stop == "plateau" and early:
            return (
                f"no improvement of {self._ranking.name} in {early.patience} validations (median of"
                f" {early.smooth}: {self._newest_median():.4g}): {best}"
            )
        if not self._until:
            return ""
        return f"{self._ranking} {'reached' if self.stop == 'reached' else 'not reached'}: {best}"

    def _newest_median(self) -> float | None:
        """The median of the newest numbers; None before there are enough."""
        assert self._early_stop  # noqa: S101 -- only called with one
        return next(reversed(self._early_stop.smoothed(self._recent, self._ranking)), None)

    def _best_text(self) -> str:
        """Such as ``0.143 after epoch 12``."""
        if self.best is None:
            return "unknown"
        return f"{self.best.value(self._ranking):.4g} after epoch {self.best.epoch + 1}"
