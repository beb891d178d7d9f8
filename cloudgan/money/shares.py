"""What masters, workers and cells cost: a ledger divided by what they did."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from cloudgan.money.ledger import Ledger, Usage
from cloudgan.schema.coevolution import ROUTINES, CellLine
from cloudgan.schema.coevolution import WAIT as CELL_WAIT
from cloudgan.schema.cost_report import Share
from cloudgan.schema.item import Item
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.record import Epoch, Process, RunRecord
from cloudgan.schema.record_line import Exchanged

MASTERS = "masters"
TRAIN, EXCHANGE, WAIT = "workers: train", "workers: exchange", "workers: wait"
SAVE, OTHER = "workers: save", "workers: other"
OUTSIDE, FEES = "outside of the epochs", "fees besides nodes"


def rank_shares(record: RunRecord, ledger: Ledger, *, group: int) -> tuple[Share, ...]:
    """Returns what masters and workers cost: parts that add up to the ledger; empty without ranks.

    Each rank of the world has an equal share of the node seconds: which rank was on which node is not
    recorded. A worker's share is divided by its own clock, which the record has per epoch and rank.

    Args:
        group: Ranks of a worker; the record has a line for the leader of each.
    """
    weights: dict[Item, defaultdict[str, float]] = {
        Item.FIRST: defaultdict(float),
        Item.STEADY: defaultdict(float),
    }
    kept = {id(epoch) for epoch in record.epochs()}
    for process in record.processes():
        for epoch in (each.epoch for each in process.epochs if id(each.epoch) in kept):
            _add_rank_seconds(
                weights[Item.FIRST if epoch.first else Item.STEADY], process, epoch, group
            )
    if not any(weights.values()):
        return ()
    order = (MASTERS, TRAIN, EXCHANGE, WAIT, SAVE, OTHER, OUTSIDE, FEES)

    def part_of(line: Usage) -> dict[str, float]:
        return weights.get(line.item) or {OUTSIDE if line.is_node_time else FEES: 1.0}

    return shares_of(ledger.shares(part_of), order)


def shares_of(found: Mapping[str, Ledger], order: Sequence[str]) -> tuple[Share, ...]:
    """Returns the parts of a ledger that cost something or took time, in this order."""
    is_priced = any(line.usd is not None for one in found.values() for line in one.lines)
    parts = ((name, found[name]) for name in order if name in found)
    return tuple(
        Share(
            name=name,
            node_seconds=None if name == FEES else part.node_seconds,
            usd=part.known_usd if is_priced else None,
        )
        for name, part in parts
        if part.known_usd or part.node_seconds
    )


def _add_rank_seconds(
    found: defaultdict[str, float], process: Process, epoch: Epoch, group: int
) -> None:
    """Adds the seconds of all ranks in an epoch, by what they did."""
    for line in process.lines:
        if not isinstance(line, Exchanged) or line.epoch != epoch.epoch:
            continue
        if line.worker is None:
            found[MASTERS] += epoch.train_seconds
            continue
        parts = {
            TRAIN: _sum(line, ("train",)),
            EXCHANGE: _sum(line, ("gather", "update")),
            WAIT: _sum(line, ("wait",)),
            SAVE: _sum(line, ("save",)),
        }
        # An update that came after the epoch's end counts in the next one.
        spent = math.fsum(parts.values())
        scale = min(1.0, epoch.train_seconds / spent) if spent else 1.0
        parts[OTHER] = epoch.train_seconds - scale * spent
        for name, part in parts.items():
            found[name] += group * part * (1.0 if name == OTHER else scale)


def _sum(line: Exchanged, routines: Sequence[str]) -> float:
    return math.fsum(line.seconds.get(routine, 0.0) for routine in routines)


MASTER, WITHOUT_CELL = "master", "ranks without a cell"


def grid_shares(
    cells: Mapping[str, Sequence[CellLine]],
    row: PriceRow | None,
    *,
    ranks: int | None = None,
    machines: int = 1,
) -> tuple[Share, ...]:
    """Returns the node time of the iterations of a grid by cell and routine.

    Ranks run at the same time, and each has an equal share of the machines: that of a cell is divided by
    its own clock. In one process the cells follow each other.

    Args:
        cells: Records by name.
        row: Price of a machine; None: unknown.
        ranks: The master and those without a cell included; None: all cells in one process.
        machines: On which they ran.
    """
    found: dict[str, float] = {}
    spent: dict[str, float] = {}
    for name, lines in cells.items():
        for routine in (*ROUTINES, CELL_WAIT):
            seconds = math.fsum(line.seconds.get(routine, 0.0) for line in lines)
            found[f"cell {name}: {routine}"] = seconds
            spent[name] = spent.get(name, 0.0) + seconds
    whole = math.fsum(spent.values())
    if ranks:
        elapsed = max(spent.values(), default=0.0)
        found |= {f"cell {name}: other": elapsed - seconds for name, seconds in spent.items()}
        found |= {MASTER: elapsed, WITHOUT_CELL: elapsed * (ranks - 1 - len(cells))}
        whole = elapsed * machines
    ledger = Ledger((Usage(item=Item.COMPUTE, row=row, quantity=whole),))
    return shares_of(ledger.shares(lambda _: found), tuple(found))
