"""`bench bandwidth`: bandwidth between ranks, the islands that it shows, and the `--group` that fits them.

The two sizes of messages are the gradients of one network, which a run sends as one bucket, and 1 kB. Each pair
is measured in turn, while the others wait. A message is answered by an empty one. The time of its way is that of
both, less half of the fastest exchange of two empty messages of all turns, and at least half of the time of both.
A turn counts the fastest of several exchanges: on busy cores the others measure the scheduler. The two ranks of a
pair poll without a pause, because a pause is longer than the way of a small message.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import Any, NamedTuple

import numpy as np

from cloudgan.bench.harness import Measurement
from cloudgan.bench.processes import as_rank, run_ranks
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.progress import Progress
from cloudgan.gan.footprint import learned
from cloudgan.ranks.mpi import World
from cloudgan.reports.charts import HeatMap
from cloudgan.reports.table import Table
from cloudgan.schema.options.bench import BenchBandwidthOptions
from cloudgan.schema.presets import find_preset

_FEWEST_RANKS, _MOST_RANKS, _USUAL_RANKS = 2, 64, 4  # one pair is measured at a time
_SMALL = 1024
_LIMIT_SECONDS = 300.0
_LONGEST_SECONDS = 18.0  # after which no further round begins
_TAG = 1
_SMALL_BYTES, _SMALL_REPEATS, _LARGE_REPEATS = 65_536, 200, 10
"""Exchanges in one turn, of messages below `_SMALL_BYTES`, and of larger ones."""
_HUGE_PAGE_BYTES = 2 << 20
_GIGA = 1e9
_UNDISTURBED = 0.7
"""Median over best, of most pairs of ranks on idle cores."""


def measure(options: BenchBandwidthOptions, progress: Progress) -> Measurement | None:
    """Measures ranks on this machine, or those of the MPI world of this process; None on its ranks above 0."""
    sizes = (bucket_bytes(options.preset), _SMALL)
    ranks = _USUAL_RANKS if options.ranks is None else options.ranks
    if not settings.is_mpi_rank():
        _check(ranks)
        progress.start("measuring each pair of ranks in turns")
        links = run_ranks(
            "cloudgan.bench.bandwidth:measure_links",
            ranks,
            limit=_LIMIT_SECONDS,
            remedy="Start the ranks yourself: mpiexec -n 4 cloudgan bench bandwidth",
            sizes=sizes,
            rounds=options.rounds,
        )
        return bandwidth_measurement(options.preset, links)

    def work(world: World) -> dict[str, Any]:
        _check(world.size)
        if options.ranks not in {None, world.size}:
            raise ConfigError(
                f"--ranks={options.ranks}, but the MPI world has {world.size}: omit --ranks"
            )
        return measure_links(world, sizes, options.rounds)

    rank, links = as_rank(work)
    return None if rank else bandwidth_measurement(options.preset, links)


def _check(ranks: int) -> None:
    if not _FEWEST_RANKS <= ranks <= _MOST_RANKS:
        raise ConfigError(
            f"--ranks={ranks}: expected {_FEWEST_RANKS} to {_MOST_RANKS}, as each pair is measured alone"
        )


def bucket_bytes(preset: str) -> int:
    """Returns the bytes of the larger network's gradients in float32, which are sent as one."""
    return np.dtype(np.float32).itemsize * max(learned(find_preset(preset)))


def bandwidth_measurement(preset: str, links: Mapping[str, Any]) -> Measurement:
    """Returns the matrices of `measure_links`, and the islands: of the best bandwidths of the larger message."""
    hosts = links["hosts"]
    names = [f"{n} ({host})" if len(set(hosts)) > 1 else str(n) for n, host in enumerate(hosts)]
    messages, tables, maps, measured = [], [], [], []
    pairs = list(permutations(range(len(hosts)), 2))
    for size, turns in zip(links["sizes"], map(np.array, links["turns"]), strict=True):
        rounds = turns.shape[-1]
        bandwidth = {"median": np.median(turns, -1), "best": turns.max(-1)}
        messages.append({"bytes": size} | {how: one.tolist() for how, one in bandwidth.items()})
        what = f"messages of {'1 kB' if size == _SMALL else f'{size / 1e6:.3g} MB'}"
        between = [float(bandwidth["median"][pair]) for pair in pairs]
        if between:
            measured.append(
                {"name": what, "median_gb_per_second": statistics.median(between) / _GIGA}
            )
        which = "a small message" if size == _SMALL else f"the gradients of {preset}"
        caption = (
            f"GB/s from each rank (row) to each, own memory on the diagonal: median (best) of {counted(rounds, 'turn')},"
            f" {what}, {which}."
        )
        rows = tuple(
            (name, *(f"{a / _GIGA:.3g} ({b / _GIGA:.3g})" for a, b in zip(*both, strict=True)))
            for name, *both in zip(names, *bandwidth.values(), strict=True)
        )
        tables.append(Table(("from \\ to", *names), rows, caption, "l" + "r" * len(names)))
        maps += [
            HeatMap(
                f"{how.capitalize()} bandwidth of {what}",
                "GB/s",
                tuple(names),
                tuple(names),
                tuple(map(tuple, (values / _GIGA).tolist())),
                corner="from \\ to",
                caption="The diagonal is a copy in the rank's own memory.",
            )
            for how, values in bandwidth.items()
        ]
    islands = find_islands(messages[0]["best"])
    said = advice(islands)
    medians, bests = messages[0]["median"], messages[0]["best"]
    shares = [medians[a][b] / bests[a][b] for a, b in pairs]
    if statistics.median(shares) < _UNDISTURBED:
        said += (
            " Other load disturbed this measurement: half of the medians are below"
            f" {_UNDISTURBED:.0%} of the best; repeat it on idle cores."
        )
    return Measurement(
        title="How fast do ranks exchange messages, and which ranks belong together?",
        preset=preset,
        rounds=rounds,
        seconds=links["seconds"],
        hosts=list(hosts),
        messages=messages,
        measured=measured,
        islands=islands._asdict(),
        lines=(said,),
        tables=tuple(tables),
        pictures=lambda: tuple(maps),
    )


def advice(islands: Islands) -> str:
    """Returns the islands and the `--group` that fits them, as sentences."""
    if islands.across is None:
        return "One island: no links are much better than others, so any --group fits."
    listed = "; ".join(map(_ranks, islands.ranks))
    inside = "no two ranks in one"
    if islands.inside is not None:
        inside = f"{islands.inside / _GIGA:.3g} GB/s inside"
    text = f"{len(islands.ranks)} islands: {listed} ({inside}, {islands.across / _GIGA:.3g} GB/s across). "
    if islands.group is None:
        return (
            f"{text}No --group above 1 stays within islands: place their ranks next to each other."
        )
    return (
        f"{text}--group={islands.group} keeps the gradients of each worker within an island;"
        " masters are further ranks, before these."
    )


def _ranks(island: tuple[int, ...]) -> str:
    """Returns for example ``ranks 0 to 3``, or ``ranks 0, 2`` if they are not consecutive."""
    first, last = island[0], island[-1]
    if len(island) == 1:
        return f"rank {first}"
    if last - first + 1 == len(island) > _FEWEST_RANKS:
        return f"ranks {first} to {last}"
    return f"ranks {', '.join(map(str, island))}"


def measure_links(world: World, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Measures each pair of ranks in turns, begins none after 18 s; all ranks call it, and get the same links.

    Returns:
        `sizes`; `turns`: bytes per second by size, sending rank, receiving rank and round, on the diagonal of a
        copy in own memory; `hosts`: name of the machine of each rank; `seconds` of all turns.
    """
    began = time.perf_counter()
    buffers = [_message(size) for size in sizes]
    # Seconds of a message with its answer and of two empty messages, by size and receiver.
    own: list[Any] = [[[] for _ in range(world.size)] for _ in sizes]
    for _ in range(rounds):
        for sender, receiver in product(range(world.size), repeat=2):
            world.gather(None)  # one pair at a time
            if world.rank not in {sender, receiver}:
                continue
            for found, buffer in zip(own, buffers, strict=True):
                turn = _turn(world, sender, receiver, buffer)
                if world.rank == sender:
                    found[receiver].append(turn)
        if max(world.gather(time.perf_counter() - began)) > _LONGEST_SECONDS:
            break
    both, empty = np.moveaxis(np.array(own), -1, 0)  # size, receiver, round
    way = np.maximum(both / 2, both - empty.min(-1, keepdims=True) / 2)
    speeds = np.array(sizes)[:, None, None] / way
    everyone = world.gather({"speeds": speeds.tolist(), "host": platform.node()})
    return {
        "sizes": list(sizes),
        "turns": [[one["speeds"][size] for one in everyone] for size in range(len(sizes))],
        "hosts": [one["host"] for one in everyone],
        "seconds": time.perf_counter() - began,
    }


def _message(size: int) -> Any:
    """Returns a buffer in huge pages only.

    Linux gives large NumPy arrays huge pages where they contain whole ones, which depends on their address:
    a copy from 5 MB with one huge page less is slower by a third, in some processes and not in others.
    """
    pages = -(-size // _HUGE_PAGE_BYTES)
    whole = np.ones((pages + 1) * _HUGE_PAGE_BYTES, np.uint8)
    first = -whole.ctypes.data % _HUGE_PAGE_BYTES
    return whole[first : first + size]


def _turn(world: World, sender: int, receiver: int, buffer: Any) -> tuple[float, float]:
    """Returns the seconds of a message with its answer and of two empty ones; of a copy, and 0."""
    repeats = _SMALL_REPEATS if buffer.nbytes < _SMALL_BYTES else _LARGE_REPEATS
    if sender == receiver:
        copy = np.empty_like(buffer)
        return _fastest(lambda: np.copyto(copy, buffer), repeats), 0.0
    empty = np.empty(0, np.uint8)

    def complete(is_done: Callable[[], bool]) -> None:
        while not is_done():
            os.sched_yield()  # the other rank may need this core

    def exchange(message: Any) -> None:
        if world.rank == sender:
            complete(world.start_send(message, receiver, _TAG))
            complete(world.start_receive(empty, receiver, _TAG))
        else:
            complete(world.start_receive(message, sender, _TAG))
            complete(world.start_send(empty, sender, _TAG))

    plain = _fastest(lambda: exchange(empty), _SMALL_REPEATS)
    return _fastest(lambda: exchange(buffer), repeats), plain


def _fastest(work: Callable[[], object], repeats: int) -> float:
    """Returns the seconds of the fastest of several calls, after one that counts for nothing."""
    work()
    return min(timeit.repeat(work, number=1, repeat=repeats))


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
