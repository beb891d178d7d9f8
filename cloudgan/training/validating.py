"""Looks at the generator after every N-th epoch, remembers the best, and says when it suffices.

Only the chief generates. What it found is in the state of its next checkpoint, so that a run which
was killed in between finds the same again, and an epoch that was saved and not looked at is looked at
when the run goes on.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import utc_now
from cloudgan.core.errors import DataError
from cloudgan.core.until import NUMBERS
from cloudgan.core.validated import Validated
from cloudgan.training.best import Best

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.core.until import Until
    from cloudgan.training.judge import Judge
    from cloudgan.training.setting import Setting
    from cloudgan.training.stopping import StopFlag


class Validator:
    """What is known of the generator's quality.

    Attributes:
        best: The best so far; None where none was looked at.
        validated_step: After which step the last look was; 0: none yet.
        reached: What was asked for held at the last look of this process.
    """

    def __init__(
        self,
        setting: Setting,
        judge: Judge | None,
        flag: StopFlag,
        progress: Progress,
        *,
        began_seconds: float,
    ) -> None:
        """Goes on from the checkpoint of `setting`; `judge` is the chief's, None elsewhere."""
        training = setting.config.training
        self._order, self._every = setting.order, training.validates_every
        self._until, self._ranking = training.until, training.ranking
        self._judge, self._flag, self._progress = judge, flag, progress
        self._began_seconds = began_seconds
        saved = setting.saved[1] if setting.saved else None
        self.best: Best | None = saved.best if saved else None
        self.validated_step = saved.validated_step if saved else 0
        self.reached = False

    def is_due(self, step: int) -> bool:
        """Whether an N-th epoch ended with `step` and was not looked at."""
        if not self._every or step <= self.validated_step:
            return False
        epoch = self._order.epoch_of(step - 1)
        return step == self._order.steps_through(epoch) and (epoch + 1) % self._every == 0

    def look(self, step: int, weights: Callable[[], Sequence[Any]]) -> Validated | None:
        """Measures the generator after `step`; None elsewhere than on the chief, and when stopped.

        Asks all workers to stop where what was asked for holds.

        Args:
            step: The last one of an epoch.
            weights: Returns those of the generator that showers are made with.
        """
        if self._judge is None:
            return None
        began = time.perf_counter()
        numbers = self._numbers(self._judge, weights())
        if numbers is None:
            return None
        found = Best(step=step, epoch=self._order.epoch_of(step - 1), numbers=numbers)
        is_best = found.beats(self.best, self._ranking)
        self.best = found if is_best else self.best
        self.validated_step = step
        self.reached = bool(self._until) and self._ranking.holds(numbers)
        if self.reached:
            self._flag.ask("reached")
        now = time.perf_counter()
        return Validated(
            time=utc_now(),
            step=step,
            epoch=found.epoch,
            showers=len(self._judge),
            numbers=numbers,
            seconds=now - began,
            by=self._ranking.name,
            best=is_best,
            until=self._until,
            reached=self.reached,
            program_seconds=now - self._began_seconds,
        )

    def describe(self, found: Validated) -> str:
        """Returns what was found in one line."""
        rest = [f"{name} {value:.3g}" for name, value in found.numbers.items() if name != found.by]
        best = "the best so far" if found.best else f"best {_told(self.best, self._ranking)}"
        first = f"{found.by} {found.numbers.get(found.by, math.nan):.4g} ({best})"
        return f"epoch {found.epoch + 1}: {', '.join([first, *rest])}; {found.seconds:.1f} s"

    def ending(self) -> str:
        """Returns how far it came with what was asked for; empty where nothing was, or elsewhere."""
        if not self._until or self._judge is None:
            return ""
        holds = self.best is not None and self._ranking.holds(self.best.numbers)
        return f"{self._ranking} {'holds' if holds else 'was not reached'}: {self._far()}"

    def _far(self) -> str:
        if self.best is None:
            return "no epoch was validated"
        return f"the best is {_told(self.best, self._ranking)} (step {self.best.step})"

    def _numbers(self, judge: Judge, weights: Sequence[Any]) -> dict[str, float] | None:
        judge.prepare()
        try:
            return judge.numbers(weights, self._progress, gives_up=self._is_told_to_stop)
        except DataError as error:
            self._progress.say(f"this generator cannot be measured: {error}")
            return dict.fromkeys(NUMBERS, math.nan)

    def _is_told_to_stop(self) -> bool:
        """A machine that is taken away leaves no time to look; its next process does."""
        return self._flag.reason in {"interrupted", "terminated"}


def _told(best: Best | None, ranking: Until) -> str:
    """Such as ``0.143 after epoch 12``."""
    return f"{best.value(ranking):.4g} after epoch {best.epoch + 1}" if best else "unknown"
