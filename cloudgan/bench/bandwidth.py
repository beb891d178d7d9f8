"""Bandwidth between ranks, the islands that it shows, and the `--group` that fits them.

The two sizes of messages are the gradients of one network, which a run sends as one bucket, and 1 kB.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cloudgan.bench.bandwidth_ranks import BandwidthRequest, MeasuredLinks, measure_links
from cloudgan.bench.islands import Islands, find_islands
from cloudgan.bench.rank_world import as_rank, run_ranks
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.models.footprint import learned
from cloudgan.parallel import communication
from cloudgan.reports.heat_map import HeatMap
from cloudgan.reports.page import Page, Paragraph, Section
from cloudgan.reports.table import Table
from cloudgan.schema.presets import find_preset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.reports.page import Block

FEWEST_RANKS, MOST_RANKS = 2, 64
"""One pair is measured at a time."""
_SMALL = 1024
_FLOAT32_BYTES = 4
_LIMIT_SECONDS = 300.0
_GIGA = 1e9
_UNDISTURBED = 0.7
"""Median over best, of most pairs of ranks on idle cores."""


@dataclass(frozen=True)
class BandwidthResult:
    """Links of all pairs.

    Attributes:
        preset: Whose gradients are sent.
        sizes: Bytes of each message.
        links: What was measured.
        islands: By the best bandwidths of the larger message.
    """

    preset: str
    sizes: tuple[int, ...]
    links: MeasuredLinks
    islands: Islands

    @property
    def rounds(self) -> int:
        """Turns of each pair."""
        return len(self.links.turns[0][0][0])

    def matrix(
        self, size: int, summary: Callable[[Sequence[float]], float]
    ) -> tuple[tuple[float, ...], ...]:
        """Returns GB/s from each rank to each, for the size of a position in `sizes`."""
        return tuple(
            tuple(summary(turns) / _GIGA for turns in row) for row in self.links.turns[size]
        )


def bucket_bytes(preset: str) -> int:
    """Returns the bytes of the larger network's gradients in float32, which are sent as one.

    Raises:
        UnknownNameError: No preset has this name.
    """
    return _FLOAT32_BYTES * max(learned(find_preset(preset)))


def measure_bandwidth(
    ranks: int | None, preset: str, *, rounds: int, progress: Progress
) -> BandwidthResult | None:
    """Measures ranks on this machine, or those of the MPI world of this process.

    Args:
        ranks: To start here; in an MPI world None or their number.
        preset: Whose gradients are sent.
        rounds: Turns of each pair.
        progress: Shows the measurement.

    Returns:
        The result; None on the ranks of an existing world other than 0.

    Raises:
        ConfigError: Not 2 to 64 ranks, another number than those of the world, or ranks cannot be
            started here.
        CloudganError: The world failed.
    """
    sizes = (bucket_bytes(preset), _SMALL)
    if communication.is_world():
        found = _of_this_world(ranks, sizes, rounds)
    else:
        _check(4 if ranks is None else ranks)
        progress.start("measuring each pair of ranks in turns")
        found = _on_this_machine(4 if ranks is None else ranks, sizes, rounds)
    if found is None:
        return None
    best = [[max(turns) for turns in row] for row in found.turns[0]]
    return BandwidthResult(preset, sizes, found, find_islands(best))


def _check(ranks: int) -> None:
    if not FEWEST_RANKS <= ranks <= MOST_RANKS:
        raise ConfigError(
            f"--ranks={ranks}: expected {FEWEST_RANKS} to {MOST_RANKS}, as each pair is measured alone"
        )


def _on_this_machine(ranks: int, sizes: tuple[int, ...], rounds: int) -> MeasuredLinks:
    with TemporaryDirectory(prefix="cloudgan-bench-") as name:
        path, result = Path(name) / "request.json", Path(name) / "links.json"
        write_json(path, BandwidthRequest(sizes=sizes, rounds=rounds, result=result))
        run_ranks(
            "cloudgan.bench.bandwidth_ranks",
            path,
            ranks,
            limit=_LIMIT_SECONDS,
            remedy="Start the ranks yourself: mpiexec -n 4 cloudgan bench bandwidth",
        )
        return read_json(result, MeasuredLinks)


def _of_this_world(ranks: int | None, sizes: tuple[int, ...], rounds: int) -> MeasuredLinks | None:
    found: list[MeasuredLinks] = []

    def work(world: Communicator) -> None:
        _check(world.size)
        if ranks not in {None, world.size}:
            raise ConfigError(f"--ranks={ranks}, but the MPI world has {world.size}: omit --ranks")
        links = measure_links(world, sizes, rounds)
        if world.rank == 0:
            found.append(links)

    as_rank(work)
    return found[0] if found else None


_SUMMARIES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("median", statistics.median),
    ("best", max),
)


def _size_name(size: int) -> str:
    return "1 kB" if size == _SMALL else f"{size / 1e6:.3g} MB"


def _rank_names(result: BandwidthResult) -> tuple[str, ...]:
    hosts = result.links.hosts
    several = len(set(hosts)) > 1
    return tuple(f"{rank} ({host})" if several else str(rank) for rank, host in enumerate(hosts))


def bandwidth_tables(result: BandwidthResult) -> tuple[Table, ...]:
    """Returns a matrix for each size, with median and best of each pair."""
    names = _rank_names(result)
    found = []
    for place, size in enumerate(result.sizes):
        median, best = (result.matrix(place, summary) for _, summary in _SUMMARIES)
        rows = tuple(
            (name, *(f"{one:.3g} ({other:.3g})" for one, other in zip(*both, strict=True)))
            for name, *both in zip(names, median, best, strict=True)
        )
        what = f"the gradients of {result.preset}" if place == 0 else "a small message"
        caption = (
            f"GB/s from each rank (row) to each, own memory on the diagonal: median (best) of"
            f" {result.rounds} turns, messages of {_size_name(size)}, {what}."
        )
        found.append(Table(("from \\ to", *names), rows, caption, "l" + "r" * len(names)))
    return tuple(found)


def advice(result: BandwidthResult) -> str:
    """Returns the islands and the `--group` that fits them, as sentences; and whether load disturbed them."""
    median, best = (result.matrix(0, summary) for _, summary in _SUMMARIES)
    shares = [
        one / other
        for number, rows in enumerate(zip(median, best, strict=True))
        for place, (one, other) in enumerate(zip(*rows, strict=True))
        if place != number
    ]
    if statistics.median(shares) >= _UNDISTURBED:
        return _islands(result.islands)
    return (
        f"{_islands(result.islands)} Other load disturbed this measurement: half of the medians are below"
        f" {_UNDISTURBED:.0%} of the best; repeat it on idle cores."
    )


def _islands(found: Islands) -> str:
    if len(found.ranks) == 1:
        return "One island: no links are much better than others, so any --group fits."
    listed = "; ".join(map(_ranks, found.ranks))
    inside = (
        "no two ranks in one" if found.inside is None else f"{found.inside / _GIGA:.3g} GB/s inside"
    )
    text = f"{len(found.ranks)} islands: {listed} ({inside}, {(found.across or 0) / _GIGA:.3g} GB/s across). "
    if found.group is None:
        return (
            text + "No --group above 1 stays within islands: place their ranks next to each other."
        )
    return text + (
        f"--group={found.group} keeps the gradients of each worker within an island; masters are further"
        " ranks, before these."
    )


def _ranks(island: tuple[int, ...]) -> str:
    """Returns for example ``ranks 0 to 3``, or ``ranks 0, 2`` if they are not consecutive."""
    first, last = island[0], island[-1]
    if len(island) == 1:
        return f"rank {first}"
    if len(island) > FEWEST_RANKS and last - first + 1 == len(island):
        return f"ranks {first} to {last}"
    return f"ranks {', '.join(map(str, island))}"


def bandwidth_json(result: BandwidthResult) -> dict[str, Any]:
    """Returns matrices in bytes per second, and the islands."""
    return {
        "machine": this_machine().describe(),
        "preset": result.preset,
        "rounds": result.rounds,
        "seconds": result.links.seconds,
        "hosts": list(result.links.hosts),
        "messages": [
            {
                "bytes": size,
                **{
                    name: [[summary(turns) for turns in row] for row in result.links.turns[place]]
                    for name, summary in _SUMMARIES
                },
            }
            for place, size in enumerate(result.sizes)
        ],
        "islands": {
            "ranks": [list(island) for island in result.islands.ranks],
            "inside": result.islands.inside,
            "across": result.islands.across,
            "group": result.islands.group,
        },
    }


def bandwidth_page(result: BandwidthResult) -> Page:
    """Returns a heat map for each size, and the tables."""
    names = _rank_names(result)
    maps = tuple(
        HeatMap(
            f"{summary_name.capitalize()} bandwidth of messages of {_size_name(size)}",
            "GB/s",
            names,
            names,
            result.matrix(place, summary),
            corner="from \\ to",
            caption="The diagonal is a copy in the rank's own memory.",
        )
        for place, size in enumerate(result.sizes)
        for summary_name, summary in _SUMMARIES
    )
    blocks: tuple[Block, ...] = (Paragraph(advice(result)), *maps, *bandwidth_tables(result))
    return Page("Bandwidth between ranks", this_machine().describe(), (Section("Links", blocks),))
