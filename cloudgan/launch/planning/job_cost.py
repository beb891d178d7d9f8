"""Cost of a whole job on an offer: training, startup, fees beside the nodes, and data transfer.

Excluded: storage and download of the results; both cost cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.clouds import has_system_node
from cloudgan.cost.accounting.line_items import TO_THE_INTERNET
from cloudgan.cost.prices.startup import find_startup_time
from cloudgan.schema.plan import ForecastPart, JobCost, PoolFee

if TYPE_CHECKING:
    from cloudgan.cost.prices.fees import Fees
    from cloudgan.cost.prices.startup import StartupTime
    from cloudgan.schema.price_row import PriceRow

TRAINING = "training"
TRAINING_ON_SPOT = "training, preemptions included"
STARTUP = "node startup"
STAGING = "staging of wheels and data"
CLUSTER = "cluster"
SYSTEM_NODE = "system node"
DATA = "data transfer"
WAITING = "waiting for the next run"
TO_ANOTHER_REGION = "to another region"
_HOUR_SECONDS = 3600
_CONTROL_PLANE = PoolFee(name=CLUSTER, kind="control_plane", per_node=False)
_SYSTEM_NODE = PoolFee(name=SYSTEM_NODE, kind="system_node", per_node=False)


class DataMove(NamedTuple):
    """Data that the nodes download.

    Attributes:
        gib: Size; None: unknown.
        provider: Cloud that stores the data; None: this machine, free of charge.
        region: Region of the data; None: unknown.
    """

    gib: float | None = None
    provider: str | None = None
    region: str | None = None


LOCAL_DATA = DataMove()


@dataclass(frozen=True)
class JobContext:
    """Costs other than training.

    Attributes:
        fees: Of the clouds.
        startups: Measured startup times of nodes.
        data_move: Data transfer.
        gang_timeout_seconds: Longest wait for nodes, and for their workers.
    """

    fees: Fees
    startups: tuple[StartupTime, ...]
    data_move: DataMove = LOCAL_DATA
    gang_timeout_seconds: float = 1200.0


class Priced(NamedTuple):
    """A cost and its upper bound.

    Attributes:
        cost: Of the job.
        worst_case_usd: Upper bound: unknown waits last until the timeout, unknown fees are the
            highest of any cloud. None: the throughput is unknown.
    """

    cost: JobCost
    worst_case_usd: float | None


class _Part(NamedTuple):
    """A line item, its upper bound if unknown, and its hourly price if known."""

    line_item: ForecastPart
    worst_usd: float = 0.0
    usd_per_hour: float = 0.0
    is_unpriced: bool = False


def job_cost(
    row: PriceRow,
    nodes: int,
    seconds: tuple[float, float] | None,
    context: JobContext,
    *,
    on_cluster: bool = True,
    fees: tuple[PoolFee, ...] = (),
) -> Priced:
    """Returns the cost of a job on an offer.

    Args:
        row: Price of one node.
        nodes: Number of nodes.
        seconds: Lower and upper estimate of the training, preemptions included; None: unknown.
        context: Costs other than training.
        on_cluster: Whether the nodes are in a cluster; Cloud TPU VMs are not.
        fees: Billed beside the nodes: disks, addresses, load balancers.
    """
    is_tpu = row.accelerator.startswith("TPU")
    startup = None if is_tpu else find_startup_time(context.startups, row.provider, nodes)
    waiting = (startup.low_seconds, startup.high_seconds) if startup else None
    bound = row.cost_usd(context.gang_timeout_seconds, nodes)
    kind = "TPUs" if is_tpu else f"nodes of {row.provider}"
    training = TRAINING_ON_SPOT if row.market == "spot" else TRAINING
    system_node = (_SYSTEM_NODE,) if has_system_node(row.provider) else ()
    hourly = {
        fee: _by_the_hour(fee, row, nodes, waiting=waiting, seconds=seconds, context=context)
        for fee in ((_CONTROL_PLANE, *system_node, *fees) if on_cluster else fees)
    }
    parts = [
        _Part(_spent(training, row, nodes, seconds, "no measured run on such nodes")),
        _Part(
            _spent(STARTUP, row, nodes, waiting, f"not measured for {kind}"),
            0.0 if waiting else bound,
        ),
        _Part(ForecastPart(name=STAGING, why_unknown="not measured"), bound),
        *hourly.values(),
        _data(row, nodes, context),
    ]
    of_cluster = sum(part.usd_per_hour for fee, part in hourly.items() if not fee.per_node)
    cost = _total(parts, startup).model_copy(update={"cluster_usd_per_hour": of_cluster})
    worst = sum(part.worst_usd for part in parts)
    return Priced(cost, None if seconds is None else cost.known_usd + worst)


def with_waiting(cost: JobCost, row: PriceRow, nodes: int, seconds: float) -> JobCost:
    """Returns the cost with nodes that wait for another run afterwards; 0 s: the same cost.

    The next run may come at once or never: the lower bound is 0.
    """
    if not seconds:
        return cost
    rate = row.hourly_usd(nodes) + cost.fees_usd_per_hour
    part = ForecastPart(name=WAITING, low_usd=0.0, usd=rate * seconds / _HOUR_SECONDS)
    usd = part.usd or 0.0
    changes = {"known_usd": cost.known_usd + usd, "once_usd": cost.once_usd + usd}
    return cost.model_copy(update=changes | {"parts": (*cost.parts, part)})


def without_startup(cost: JobCost) -> JobCost:
    """Returns the cost on nodes that are ready."""
    zero = {"low_usd": 0.0, "usd": 0.0, "why_unknown": ""}
    started = next((part for part in cost.parts if part.name == STARTUP), None)
    if started is None:
        return cost
    parts = [one.model_copy(update=zero) if one is started else one for one in cost.parts]
    return cost.model_copy(
        update={
            "parts": tuple(parts),
            "known_low_usd": cost.known_low_usd - (started.low_usd or 0.0),
            "known_usd": cost.known_usd - (started.usd or 0.0),
            "unknown": tuple(name for name in cost.unknown if name != STARTUP),
            "startup_low_seconds": 0.0,
            "startup_seconds": 0.0,
        }
    )


def _spent(
    name: str, row: PriceRow, nodes: int, seconds: tuple[float, float] | None, why: str
) -> ForecastPart:
    if seconds is None:
        return ForecastPart(name=name, why_unknown=why)
    low, high = (row.cost_usd(each, nodes) for each in seconds)
    return ForecastPart(name=name, low_usd=low, usd=high)


def _by_the_hour(
    of: PoolFee,
    row: PriceRow,
    nodes: int,
    *,
    waiting: tuple[float, float] | None,
    seconds: tuple[float, float] | None,
    context: JobContext,
) -> _Part:
    """Returns a fee for the lifetime of the nodes; without a price its bound is the highest known."""
    low, high = (sum(each) for each in zip(waiting or (0.0, 0.0), seconds or (0, 0), strict=True))
    units = of.quantity * (nodes if of.per_node else 1)
    fee = context.fees.find(of.kind, row.provider, row.region, of.product or None)
    if fee is None:
        hours = high / _HOUR_SECONDS + 2 * context.gang_timeout_seconds / _HOUR_SECONDS
        known = (one.usd_per_hour for one in context.fees.rows if one.kind == of.kind)
        item = ForecastPart(name=of.name, why_unknown=_no_price(of, row))
        return _Part(item, units * hours * max(known, default=0.0), is_unpriced=True)
    rate = units * fee.usd_per_hour
    most = units * context.fees.dearest(fee).usd_per_hour if of.kind == "system_node" else rate
    if seconds is None:
        why = "depends on the duration of the training"
        return _Part(ForecastPart(name=of.name, why_unknown=why), usd_per_hour=most)
    low_usd, high_usd = rate * low / _HOUR_SECONDS, most * high / _HOUR_SECONDS
    item = ForecastPart(name=of.name, low_usd=low_usd, usd=high_usd)
    return _Part(item, usd_per_hour=most)


def _no_price(of: PoolFee, row: PriceRow) -> str:
    return (
        f"no price of {of.product} in {row.region}" if of.product else f"no price in {row.region}"
    )


def _data(row: PriceRow, nodes: int, context: JobContext) -> _Part:
    """Each node downloads the data once; ingress from this machine is free."""
    moving = context.data_move
    if moving.provider is None or (moving.provider, moving.region) == (row.provider, row.region):
        return _Part(ForecastPart(name=DATA, low_usd=0.0, usd=0.0))
    is_near = moving.provider == row.provider
    fee = context.fees.find(
        "egress_gib",
        moving.provider,
        moving.region,
        TO_ANOTHER_REGION if is_near else TO_THE_INTERNET,
    )
    if moving.gib is None:
        return _Part(ForecastPart(name=DATA, why_unknown="the size of the data is unknown"))
    fetched = moving.gib * nodes
    if moving.region is None and is_near:
        why = f"the region of the data in {row.provider} is unknown"
    elif fee is None:
        why = f"no price of egress from {moving.provider} {moving.region or ''}".rstrip()
    else:
        return _Part(ForecastPart(name=DATA, low_usd=fee.usd * fetched, usd=fee.usd * fetched))
    highest = max((one.usd for one in context.fees.rows if one.kind == "egress_gib"), default=0.0)
    return _Part(ForecastPart(name=DATA, why_unknown=why), highest * fetched)


def _total(parts: list[_Part], startup: StartupTime | None) -> JobCost:
    items = tuple(part.line_item for part in parts)
    return JobCost(
        parts=items,
        known_low_usd=sum(part.low_usd or 0.0 for part in items),
        known_usd=sum(part.usd or 0.0 for part in items),
        unknown=tuple(part.name for part in items if part.usd is None),
        fees_usd_per_hour=sum(part.usd_per_hour for part in parts),
        unpriced=tuple(part.line_item.name for part in parts if part.is_unpriced),
        once_usd=next((part.usd or 0.0 for part in items if part.name == DATA), 0.0),
        startup_low_seconds=startup.low_seconds if startup else None,
        startup_seconds=startup.high_seconds if startup else None,
        startup_basis=startup.basis if startup else "",
    )
