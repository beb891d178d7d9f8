"""Removes what nobody needs any more, run by run; what may be alive by now stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.auditing.standing import is_finding
from cloudgan.core.errors import CloudganError, LeftBehindError
from cloudgan.launching.removing import Remover

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator

    from cloudgan.auditing.survey import Survey, Surveyor
    from cloudgan.launching.cloud import Thing


@dataclass(frozen=True)
class Clearer:
    """Deletes what a survey found left behind.

    Attributes:
        surveyor: That made it.
        say: Is told what is waited for, and what stays.
        poll_seconds: Between two looks.
    """

    surveyor: Surveyor
    say: Callable[[str], None]
    poll_seconds: float = 5.0

    def clear(self, survey: Survey, now: dt.datetime) -> Iterator[str]:
        """Removes runs that are over, then what is no run's; yields each name when it is gone.

        Args:
            survey: The newest.
            now: In UTC.

        Raises:
            LeftBehindError: Something does not go; all that can go went.
        """
        failures: list[str] = []
        remover = Remover(self.surveyor.cloud, self.say, self.poll_seconds)
        for run, things in _by_run(survey).items():
            try:
                if self.surveyor.is_alive(run, survey):
                    self.say(f"run {run} is alive by now, or nobody can say: it stays as it is")
                else:
                    yield from self._remove_run(run, things, survey, remover)
            except CloudganError as error:
                failures.append(str(error))
        try:
            yield from remover.remove(self._unneeded(now))
        except CloudganError as error:
            failures.append(str(error))
        if failures:
            raise LeftBehindError("; ".join(failures))

    def _unneeded(self, now: dt.datetime) -> list[Thing]:
        """What is no run's and left, as it is now: a run may have begun to use it."""
        return [
            thing
            for thing, standing in self.surveyor.survey(now).things
            if thing.run is None and is_finding(standing)
        ]

    def _remove_run(
        self, run: str, things: list[Thing], survey: Survey, remover: Remover
    ) -> Iterator[str]:
        intent = survey.runs[run].intent
        if intent is None or not intent.is_open:
            yield from remover.remove(things)
            return
        here = intent.plan.place.model_copy(update={"profile": survey.place.profile})
        yield from self.surveyor.opened(here, intent.plan.store).remove(run)


def _by_run(survey: Survey) -> dict[str, list[Thing]]:
    found: dict[str, list[Thing]] = {}
    for thing, standing in survey.things:
        if thing.run and is_finding(standing):
            found.setdefault(thing.run, []).append(thing)
    return found
