"""Islands of ranks: sets in which every pair is better linked than most pairs across sets."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LEAST_RATIO = 1.5
"""Between the slowest of the better links and the fastest of the others: smaller steps are noise."""
_TWO = 2


class Islands(NamedTuple):
    """Ranks by island.

    Attributes:
        ranks: Of each island, ascending; one island if no links are better than others.
        inside: Median bandwidth between ranks of one island; None: no island has two.
        across: Median bandwidth between ranks of different ones; None: there is one island.
        group: Largest number of consecutive ranks that divides all ranks into groups within islands;
            None: there is one island, or only groups of one rank fit.
    """

    ranks: tuple[tuple[int, ...], ...]
    inside: float | None
    across: float | None
    group: int | None


def find_islands(bandwidth: Sequence[Sequence[float]]) -> Islands:
    """Divides ranks at the largest step between the bandwidths of their links.

    A link counts with its slower direction. Ranks are better linked above the largest relative step in the
    sorted bandwidths, if it is at least `LEAST_RATIO`. The islands are then complete subgraphs of the
    better links, largest first (Bron and Kerbosch, CACM 16 (1973) 575, doi 10.1145/362342.362367): in the
    mesh of a DGX-1 each of eight GPUs has a link to the other half, and yet there are two islands of four.
    Unless most pairs across islands are linked worse, there is one island: single slow pairs are noise.

    Args:
        bandwidth: From each rank (row) to each (column) in one unit; the diagonal is not read.
    """
    count = len(bandwidth)
    links = {
        (one, other): min(bandwidth[one][other], bandwidth[other][one])
        for one in range(count)
        for other in range(one + 1, count)
    }
    least = _least_of_the_better(sorted(links.values()))
    if least is not None:
        ranks = _divided(count, {pair for pair, value in links.items() if value >= least})
        across = _values(links, ranks, inside=False)
        if _TWO * sum(value < least for value in across) > len(across):
            inside = _values(links, ranks, inside=True)
            return Islands(
                ranks,
                statistics.median(inside) if inside else None,
                statistics.median(across),
                _group(count, ranks),
            )
    return Islands(
        (tuple(range(count)),), statistics.median(links.values()) if links else None, None, None
    )


def _least_of_the_better(ordered: Sequence[float]) -> float | None:
    """Returns the bandwidth above the largest relative step; None if no step is large enough."""
    steps = [(above / below, above) for below, above in pairwise(ordered) if below]
    ratio, above = max(steps, default=(0.0, 0.0))
    return above if ratio >= LEAST_RATIO else None


def _divided(count: int, better: set[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Returns the ranks as complete subgraphs, each the largest among the ranks that are left."""
    left, found = set(range(count)), []
    while left:
        near = {
            rank: {other for other in left if (min(rank, other), max(rank, other)) in better}
            for rank in left
        }
        largest = min(
            _cliques(near, set(), set(left), set()), key=lambda ranks: (-len(ranks), ranks)
        )
        found.append(largest)
        left -= set(largest)
    return tuple(sorted(found))


def _cliques(
    near: Mapping[int, set[int]], chosen: set[int], possible: set[int], seen: set[int]
) -> Iterator[tuple[int, ...]]:
    """Yields the maximal complete subgraphs."""
    if not possible and not seen:
        yield tuple(sorted(chosen))
        return
    pivot = max(sorted(possible | seen), key=lambda rank: len(near[rank] & possible))
    for rank in sorted(possible - near[pivot]):
        yield from _cliques(near, chosen | {rank}, possible & near[rank], seen & near[rank])
        possible = possible - {rank}
        seen = seen | {rank}


def _values(
    links: Mapping[tuple[int, int], float], ranks: Sequence[tuple[int, ...]], *, inside: bool
) -> list[float]:
    home = {rank: number for number, island in enumerate(ranks) for rank in island}
    return [value for (one, other), value in links.items() if (home[one] == home[other]) == inside]


def _group(count: int, ranks: Sequence[tuple[int, ...]]) -> int | None:
    home = {rank: number for number, island in enumerate(ranks) for rank in island}
    for size in range(count, _TWO - 1, -1):
        blocks = [range(first, first + size) for first in range(0, count - size + 1, size)]
        if count % size == 0 and all(len({home[rank] for rank in block}) == 1 for block in blocks):
            return size
    return None
