"""Islands of ranks: sets in which every pair is better linked than most pairs across sets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

LEAST_RATIO = 1.5
"""Between the slowest of the better links and the fastest of the others: smaller steps are noise."""


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
    """Divides ranks at the largest step between the bandwidths of their links, from each (row) to each (column).

    A link counts with its slower direction. Ranks are better linked above the largest relative step in the
    sorted bandwidths, if it is at least `LEAST_RATIO`. The islands are then complete subgraphs of the
    better links, largest first (Bron and Kerbosch, CACM 16 (1973) 575, doi 10.1145/362342.362367): in the
    mesh of a DGX-1 each of eight GPUs has a link to the other half, and yet there are two islands of four.
    Unless most pairs across islands are linked worse, there is one island: single slow pairs are noise.
    """
    count = len(bandwidth)
    links = {
        (a, b): min(bandwidth[a][b], bandwidth[b][a]) for a, b in combinations(range(count), 2)
    }
    every = statistics.median(links.values()) if links else None
    one_island = Islands((tuple(range(count)),), every, None, None)
    steps = [(above / below, above) for below, above in pairwise(sorted(links.values())) if below]
    ratio, least = max(steps, default=(0.0, 0.0))
    if ratio < LEAST_RATIO:
        return one_island
    left, ranks = set(range(count)), []
    while left:
        near = {a: {b for b in left - {a} if links[min(a, b), max(a, b)] >= least} for a in left}
        ranks.append(min(_cliques(near, set(), left, set()), key=lambda one: (-len(one), one)))
        left = left - set(ranks[-1])
    home = {rank: number for number, island in enumerate(ranks) for rank in island}
    inside = [value for (a, b), value in links.items() if home[a] == home[b]]
    across = [value for (a, b), value in links.items() if home[a] != home[b]]
    if 2 * sum(value < least for value in across) <= len(across):
        return one_island
    fitting = (
        size
        for size in range(count, 1, -1)
        if count % size == 0 and all(home[a] == home[a - a % size] for a in range(count))
    )
    return Islands(
        tuple(sorted(ranks)),
        statistics.median(inside) if inside else None,
        statistics.median(across),
        next(fitting, None),
    )


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
        possible, seen = possible - {rank}, seen | {rank}
