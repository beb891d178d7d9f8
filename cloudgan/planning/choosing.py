"""From a ranking to a choice that a plan can show: the best way, the next ones, and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.choice import Alternative, Choice, PassedOver
from cloudgan.core.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.planning.ranking import Ranking, Refused, Way

_MOST_ALTERNATIVES = 5
_MOST_REASONS = 8
_MOST_EXAMPLES = 3


def preferring(ranking: Ranking, offer: str | None) -> Ranking:
    """Returns a ranking with an offer at its top, if it is there."""
    first = [way for way in ranking.ways if way.row.offer == offer]
    others = [way for way in ranking.ways if way.row.offer != offer]
    return ranking._replace(ways=(*first, *others))


def best_way(ranking: Ranking, asked: str) -> Way:
    """Returns the first way of a ranking.

    Args:
        ranking: Of what was asked.
        asked: In words, for the message.

    Raises:
        PlanError: There is none; says why not.
    """
    if ranking.ways:
        return ranking.ways[0]
    told = [f"{each.why} ({_shown(each)})" for each in passed_over(ranking.refused)]
    raise PlanError(f"no offer of {asked} can be taken: {'; '.join(told) or 'there is none'}")


def choice(ranking: Ranking, asked: str, epochs: int, market_why: str = "") -> Choice:
    """Returns why the first way of a ranking was chosen.

    Args:
        ranking: Of what was asked.
        asked: In words.
        epochs: Of the job.
        market_why: Said of the market where no break-even decided.
    """
    best, others = ranking.ways[0], ranking.ways[1:]
    among = f"{len(ranking.ways)} offers of {asked}" if others else f"the only offer of {asked}"
    if best.candidate is None:
        why = f"nothing is known of its speed, so by price alone: cheapest hour of {among}"
    else:
        why = (
            f"cheapest whole job of {epochs} epochs at worst, of {among}; what nobody knows counts"
            " at its worst, waiting as long as --gang_timeout allows"
        )
    return Choice(
        why=why if others else f"{among} that can be taken",
        market_why=best.market_why or market_why,
        alternatives=tuple(map(_alternative, others[:_MOST_ALTERNATIVES])),
        passed_over=passed_over(ranking.refused),
    )


def passed_over(refused: Iterable[Refused]) -> tuple[PassedOver, ...]:
    """Groups refused offers by their reason, the commonest first."""
    by_why: dict[str, list[str]] = {}
    for one in refused:
        offers = by_why.setdefault(one.why, [])
        if one.offer not in offers:
            offers.append(one.offer)
    groups = sorted(by_why.items(), key=lambda item: -len(item[1]))
    return tuple(
        PassedOver(why=why, count=len(offers), examples=tuple(offers[:_MOST_EXAMPLES]))
        for why, offers in groups[:_MOST_REASONS]
    )


def _alternative(way: Way) -> Alternative:
    return Alternative(
        offer=way.row.offer,
        nodes=way.nodes,
        known_usd=way.priced.cost.known_usd if way.candidate else None,
        unknown=way.priced.cost.unknown,
        seconds=way.candidate.seconds if way.candidate else None,
        grade=way.candidate.epoch.grade if way.candidate else None,
    )


def _shown(group: PassedOver) -> str:
    return ", ".join(group.examples) + (
        f" and {group.count - len(group.examples)} more"
        if group.count > len(group.examples)
        else ""
    )
