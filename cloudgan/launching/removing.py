"""Removes what a run left in a cloud: in its order, until gone, and nothing that is not ours."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError
from cloudgan.launching.making import wait_until_gone
from cloudgan.launching.pauses import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.launching.cloud import Cloud, Thing


@dataclass(frozen=True)
class Remover:
    """Deletes things and polls until they are gone.

    Attributes:
        cloud: That is asked.
        say: Is told what is waited for.
        poll_seconds: Between two looks; the first ones follow sooner.
        most_seconds: For one thing to go, refusals included.
    """

    cloud: Cloud
    say: Callable[[str], None]
    poll_seconds: float = 5.0
    most_seconds: float = 1800.0

    def remove(self, things: Iterable[Thing]) -> Iterator[str]:
        """Deletes things, those of one rank side by side; yields each when it is gone.

        Raises:
            LaunchError: Something does not go; all that can go went.
        """
        failures = []
        ordered = sorted(things, key=lambda thing: (thing.rank, thing.kind, thing.name))
        for _, same in groupby(ordered, key=lambda thing: thing.rank):
            batch = list(same)
            for thing in batch:
                with suppress(LaunchError):  # asked again below
                    self.cloud.delete(thing)
            for thing in batch:
                try:
                    self._until_gone(thing)
                except LaunchError as error:
                    failures.append(str(error))
                    continue
                yield f"{thing.kind} {thing.name}"
        if failures:
            raise LaunchError("; ".join(failures))

    def _until_gone(self, thing: Thing) -> None:
        """Asks again while the deletion is refused, as during another operation."""
        began, told, waits = monotonic_seconds(), False, pauses(self.poll_seconds)
        while True:
            now = self.cloud.look(thing)
            if now is None:
                return
            if now.state == "leaving":
                wait_until_gone(self.cloud, thing, self.poll_seconds, self.most_seconds)
                return
            try:
                self.cloud.delete(thing)
            except LaunchError as error:
                if monotonic_seconds() - began > self.most_seconds:
                    raise
                if not told:
                    told = True
                    self.say(f"{thing.kind} {thing.name} cannot go yet: {error}")
            if monotonic_seconds() - began > self.most_seconds:
                raise LaunchError(f"{thing.kind} {thing.name} does not go away")
            time.sleep(next(waits))
