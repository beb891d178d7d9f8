"""Which lines of a record count: none twice, whatever wrote them twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.core.record import Epoch, Line, Started, Stopped


class Repeat(NamedTuple):
    """A line that stands for the same as an earlier one; lines are counted from 1."""

    line: int
    repeats: int


class CountedEpoch(NamedTuple):
    """An epoch that counts, and the line it stands in."""

    line: int
    epoch: Epoch


class Process(NamedTuple):
    """What one process wrote: from its start, or from where one must have begun, to its end."""

    line: int
    started: Started | None
    stopped: Stopped | None
    epochs: tuple[CountedEpoch, ...]
    lines: tuple[Line, ...]


def distinct(
    lines: Iterable[Line],
) -> tuple[tuple[tuple[int, Line], ...], tuple[Repeat, ...]]:
    """Returns the numbered lines that no earlier one equals, and those that one does.

    Two processes never write equal lines: each holds seconds to the last bit.
    """
    kept: list[tuple[int, Line]] = []
    repeats = []
    seen: dict[tuple[str, str, int], list[tuple[int, Line]]] = {}
    for number, line in enumerate(lines, start=1):
        alike = seen.setdefault((line.kind, line.time, line.step), [])
        same = next((earlier for earlier, other in alike if other == line), None)
        if same is not None:
            repeats.append(Repeat(number, same))
            continue
        alike.append((number, line))
        kept.append((number, line))
    return tuple(kept), tuple(repeats)


def counted_epochs(
    lines: Iterable[tuple[int, Line]],
) -> tuple[tuple[CountedEpoch, ...], tuple[Repeat, ...]]:
    """Returns the epochs that count, as they were last run, and those that replaced another.

    A start or a resume at a step voids what stands above it of later steps. Where neither says so,
    an epoch that begins before the end of one of its number replaces that one.
    """
    kept: list[CountedEpoch] = []
    replaced = []
    begun_at: int | None = None
    for number, line in lines:
        if line.kind == "started":
            begun_at = line.step
        elif line.kind == "resumed":
            begun_at = None
            kept = [each for each in kept if each.epoch.step <= line.step]
        elif line.kind == "epoch":
            if begun_at is not None:
                kept = [each for each in kept if each.epoch.step <= begun_at]
                begun_at = None
            for other in [each for each in kept if _is_same(each.epoch, line)]:
                replaced.append(Repeat(number, other.line))
                kept.remove(other)
            kept.append(CountedEpoch(number, line))
    return tuple(kept), tuple(replaced)


def processes(lines: Iterable[tuple[int, Line]]) -> tuple[Process, ...]:
    """Splits a record by process, also where the line of a start or of an end is missing."""
    found: list[list[tuple[int, Line]]] = []
    for number, line in lines:
        before = [other for _, other in found[-1] if other.kind != "noticed"] if found else []
        if not found or (before and _begins_process(line, before)):
            found.append([])
        found[-1].append((number, line))
    return tuple(_process(part) for part in found)


def _is_same(earlier: Epoch, later: Epoch) -> bool:
    return earlier.epoch == later.epoch and later.step - later.steps < earlier.step


def _begins_process(line: Line, before: Sequence[Line]) -> bool:
    if line.kind == "noticed":  # of the process that it ended
        return False
    if line.kind == "started" or before[-1].kind == "stopped":
        return True
    if line.kind == "resumed":
        return any(other.kind != "started" for other in before)
    return line.kind == "epoch" and line.first and any(other.kind == "epoch" for other in before)


def _process(part: list[tuple[int, Line]]) -> Process:
    first = part[0][1]
    last = next((line for _, line in reversed(part) if line.kind != "noticed"), first)
    return Process(
        part[0][0],
        first if first.kind == "started" else None,
        last if last.kind == "stopped" else None,
        tuple(CountedEpoch(number, line) for number, line in part if line.kind == "epoch"),
        tuple(line for _, line in part),
    )
