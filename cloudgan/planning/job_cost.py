"""What a whole job costs on an offer: training, and what is paid before and beside it.

Not in it: the store's disk space, and fetching the results to this machine; both are cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.choice import CostPart, JobCost
from cloudgan.cost.estimate import usd
from cloudgan.cost.fee_parts import TO_THE_INTERNET
from cloudgan.cost.startup import find_startup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.fee_row import FeeKind
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.fees import Fees
    from cloudgan.cost.startup import Startup

TRAINING = "training"
TRAINING_ON_SPOT = "training, lost nodes included"
STARTUP = "start of the nodes"
STAGING = "staging of wheels and data"
CLUSTER = "cluster"
SYSTEM_NODE = "cluster's own node"
DATA = "moving the data"
TO_ANOTHER_REGION = "to another region"
_HOUR_SECONDS = 3600


class Moving(NamedTuple):
    """What the nodes fetch, and from where.

    Attributes:
        gib: The data; None is unknown.
        provider: Of the cloud in which they lie; None: they come from this machine, which is free.
        region: Where they lie; None: only that cloud knows.
    """

    gib: float | None = None
    provider: str | None = None
    region: str | None = None


FROM_HERE = Moving()


@dataclass(frozen=True)
class Beside:
    """What is known of all that is paid beside training.

    Attributes:
        fees: Of the clouds.
        startups: How long others waited for nodes.
        moving: The data.
        gang_timeout_seconds: Nobody waits longer for nodes, nor for their workers.
    """

    fees: Fees
    startups: tuple[Startup, ...]
    moving: Moving = FROM_HERE
    gang_timeout_seconds: float = 1200.0


class Priced(NamedTuple):
    """A cost, and by what it is ranked.

    Attributes:
        cost: Of the job.
        ranked_usd: With what is unknown at its worst: waiting lasts as long as the run allows, a
            fee is as high as any cloud's. None: not even that is known, of the training's speed.
    """

    cost: JobCost
    ranked_usd: float | None


class _Part(NamedTuple):
    """A part, what an unknown one would cost at its worst, and what a known one costs per hour."""

    told: CostPart
    worst_usd: float = 0.0
    usd_per_hour: float = 0.0


def job_cost(
    row: PriceRow,
    nodes: int,
    seconds: tuple[float, float] | None,
    beside: Beside,
    *,
    on_cluster: bool = True,
) -> Priced:
    """Returns what a job costs on an offer.

    Args:
        row: The price.
        nodes: How many.
        seconds: Of the training, at the fast and the slow edge, losses of spot nodes included; None
            is unknown.
        beside: Everything else.
        on_cluster: Whether there is a cluster around the nodes, which machines of Cloud TPU lack.
    """
    is_tpu = row.accelerator.startswith("TPU")
    startup = None if is_tpu else find_startup(beside.startups, row.provider, nodes)
    waiting = (startup.low_seconds, startup.high_seconds) if startup else None
    bound = usd(beside.gang_timeout_seconds, row, nodes) or 0.0
    kind = "TPUs" if is_tpu else f"nodes of {row.provider}"
    training = TRAINING_ON_SPOT if row.market == "spot" else TRAINING
    parts = [
        _Part(_spent(training, row, nodes, seconds, "no run on such nodes was measured")),
        _Part(
            _spent(STARTUP, row, nodes, waiting, f"nobody measured it for {kind}"),
            0.0 if waiting else bound,
        ),
        _Part(CostPart(name=STAGING, why_unknown="nobody measured it"), bound),
        *(_cluster(row, waiting, seconds, beside) if on_cluster else ()),
        _data(row, nodes, beside),
    ]
    cost = _total(parts, startup)
    worst = sum(part.worst_usd for part in parts)
    return Priced(cost, None if seconds is None else cost.known_usd + worst)


def _spent(
    name: str, row: PriceRow, nodes: int, seconds: tuple[float, float] | None, why: str
) -> CostPart:
    if seconds is None:
        return CostPart(name=name, why_unknown=why)
    low, high = (usd(each, row, nodes) for each in seconds)
    return CostPart(name=name, low_usd=low, usd=high)


def _cluster(
    row: PriceRow,
    waiting: tuple[float, float] | None,
    seconds: tuple[float, float] | None,
    beside: Beside,
) -> Iterator[_Part]:
    """Control plane, and one small node for the cluster's own pods, for as long as the nodes."""
    low, high = (sum(each) for each in zip(waiting or (0.0, 0.0), seconds or (0, 0), strict=True))
    hours = high / _HOUR_SECONDS + 2 * beside.gang_timeout_seconds / _HOUR_SECONDS
    kinds: tuple[tuple[str, FeeKind], ...] = (
        (CLUSTER, "control_plane"),
        (SYSTEM_NODE, "system_node"),
    )
    for name, kind in kinds:
        fee = beside.fees.find(kind, row.provider, row.region)
        if fee is None:
            why = f"no price of it in {row.region}"
            dearest = max((one.usd for one in beside.fees.rows if one.kind == kind), default=0.0)
            yield _Part(CostPart(name=name, why_unknown=why), hours * dearest)
        elif seconds is None:
            why = "it lasts as long as the training"
            yield _Part(CostPart(name=name, why_unknown=why), usd_per_hour=fee.usd)
        else:
            low_usd, high_usd = (fee.usd * each / _HOUR_SECONDS for each in (low, high))
            told = CostPart(name=name, low_usd=low_usd, usd=high_usd)
            yield _Part(told, usd_per_hour=fee.usd)


def _data(row: PriceRow, nodes: int, beside: Beside) -> _Part:
    """Each node fetches the data once; what comes from this machine enters a cloud for nothing."""
    moving = beside.moving
    if moving.provider is None or (moving.provider, moving.region) == (row.provider, row.region):
        return _Part(CostPart(name=DATA, low_usd=0.0, usd=0.0))
    is_near = moving.provider == row.provider
    fee = beside.fees.find(
        "egress_gib",
        moving.provider,
        moving.region,
        TO_ANOTHER_REGION if is_near else TO_THE_INTERNET,
    )
    if moving.gib is None:
        return _Part(CostPart(name=DATA, why_unknown="nobody knows how large the data are"))
    fetched = moving.gib * nodes
    if moving.region is None and is_near:
        why = f"in which region of {row.provider} the data lie is not known"
    elif fee is None:
        why = f"no price of traffic from {moving.provider} {moving.region or ''}".rstrip()
    else:
        return _Part(CostPart(name=DATA, low_usd=fee.usd * fetched, usd=fee.usd * fetched))
    dearest = max((one.usd for one in beside.fees.rows if one.kind == "egress_gib"), default=0.0)
    return _Part(CostPart(name=DATA, why_unknown=why), dearest * fetched)


def _total(parts: list[_Part], startup: Startup | None) -> JobCost:
    told = tuple(part.told for part in parts)
    return JobCost(
        parts=told,
        known_low_usd=sum(part.low_usd or 0.0 for part in told),
        known_usd=sum(part.usd or 0.0 for part in told),
        unknown=tuple(part.name for part in told if part.usd is None),
        fees_usd_per_hour=sum(part.usd_per_hour for part in parts),
        startup_low_seconds=startup.low_seconds if startup else None,
        startup_seconds=startup.high_seconds if startup else None,
        startup_basis=startup.basis if startup else "",
    )
