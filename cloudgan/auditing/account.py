"""What an account has once for all runs: made by `setup`, removed by its teardown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudgan.core.errors import ConfigError
from cloudgan.launching.making import Maker
from cloudgan.launching.removing import Remover
from cloudgan.providers.clouds import region_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.auditing.survey import Survey
    from cloudgan.core.plan import Step
    from cloudgan.launching.cloud import Cloud, Thing

BUCKET: Final = "bucket"
_OPEN: Final = frozenset({"starting", "started", "removing"})


@dataclass(frozen=True)
class Account:
    """One account and region of one cloud.

    Attributes:
        cloud: Somebody is logged in to it.
        say: Is told what is waited for.
        poll_seconds: Between two looks.
    """

    cloud: Cloud
    say: Callable[[str], None]
    poll_seconds: float = 5.0

    def make(self, steps: Iterable[Step]) -> Iterator[tuple[Step, bool]]:
        """Makes what is not there; yields each step, and whether it was made just now.

        Raises:
            CloudganError: The cloud refuses; what was made before stays, and again is fine.
        """
        maker = Maker(self.cloud, self.say, self.poll_seconds)
        for step in steps:
            yield step, maker.ensure(step, None)

    def remove(self, things: Iterable[Thing]) -> Iterator[str]:
        """Removes things of no run; yields each name when it is gone.

        Raises:
            LaunchError: Something does not go.
        """
        yield from Remover(self.cloud, self.say, self.poll_seconds).remove(things)


def torn_down(survey: Survey, *, everywhere: bool, purge: bool) -> tuple[Thing, ...]:
    """Returns what a teardown removes.

    Args:
        survey: Of the account.
        everywhere: In all regions.
        purge: The buckets too.

    Raises:
        ConfigError: Runs are open, which would lose what they stand on.
    """
    here = region_of(survey.place.provider, survey.place.region or "")
    things = [
        thing
        for thing, _ in survey.things
        if everywhere or region_of(survey.place.provider, thing.region) in (here, "")
    ]
    _refuse_open(survey, things, None if everywhere else here)
    kept = [one for one in things if one.shared == BUCKET and not purge]
    elsewhere = {region_of(survey.place.provider, one.region) for one, _ in survey.things} - {
        here,
        "",
    }
    return tuple(
        thing
        for thing in things
        if thing.run is None
        and thing not in kept
        and not any(_holds(thing, bucket) for bucket in kept)
        and (thing.region or everywhere or not elsewhere)  # of all regions: goes with the last one
    )


def _holds(thing: Thing, bucket: Thing) -> bool:
    """Whether a bucket would go with a thing, as with a resource group of Azure."""
    return thing.name == bucket.parent or bucket.name.lower().startswith(f"{thing.name.lower()}/")


def _refuse_open(survey: Survey, things: Iterable[Thing], region: str | None) -> None:
    runs = {thing.run for thing in things if thing.run}
    for view in survey.runs.values():
        is_here = view.intent is None or region in (None, view.intent.plan.place.region)
        if is_here and (view.is_alive or (view.intent and view.intent.state in _OPEN)):
            runs.add(view.run)
    if runs:
        named = ", ".join(sorted(runs))
        first = min(runs)
        raise ConfigError(
            f"runs are open: {named}; end and remove each first, as by `cloudgan down {first}"
            f" --provider={survey.place.provider}`"
        )
