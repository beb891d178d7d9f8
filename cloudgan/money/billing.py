"""Usage of a launched run by its launch.json and the clouds' billing rules: one ledger for all.

Status and budget take it until now, the report takes it whole, and searches, grids and simulations divide
it. What is still up has no end: until now it is known, as a whole it is not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.clouds import CLOUDS, BillingRule, has_system_node, of_bucket
from cloudgan.core.errors import DataError
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.schema import launch as launches
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt, Launch
from cloudgan.schema.plan import Showers
from cloudgan.schema.price_row import (
    CONTROL_PLANE,
    SYSTEM_NODE,
    DataMove,
    FeeRow,
    PoolFee,
    PriceRow,
)
from cloudgan.schema.record import PreemptionNotice, RunRecord, read_if_whole
from cloudgan.schema.run_folder import RunFolder

TO_THE_INTERNET, TO_ANOTHER_REGION = "to the internet", "to another region"
"""Names in fees.csv."""
_TPU = BillingRule(
    1,
    0,
    "https://cloud.google.com/tpu/pricing (stored page): by the second, while READY;"
    " https://cloud.google.com/tpu/docs/preemptible (read 2026-11-22): no charge for a TPU that is"
    " preempted in its first minute",
    free_if_taken_seconds=60,
)
_OWN = BillingRule(1, 0, "the price file: by the second")
_NOTICE_WINDOW = dt.timedelta(minutes=15)
"""From a preemption notice, written when training has ended, to the observed end of the node."""


def billing_rule(provider: str, node_type: str, up: dt.datetime | None) -> BillingRule | None:
    """Returns the billing rule of a node that came up at a time; None if it is unknown.

    A node of a price file is billed by the second, a TPU slice such as v3-8 by Cloud TPU's rule.
    """
    if provider == "gcp" and node_type[:1] == "v" and node_type[1:2].isdigit() and "-" in node_type:
        return _TPU
    if provider not in CLOUDS:
        return _OWN
    rules = [
        rule for rule in CLOUDS[provider].billing if not rule.since or (up and up >= rule.since)
    ]
    return rules[-1] if rules else None


def fees_beside(
    provider: str, fees: Sequence[PoolFee], *, on_cluster: bool = True
) -> tuple[PoolFee, ...]:
    """Returns all that a cloud bills beside the nodes: the cluster, then the given fees."""
    system = (SYSTEM_NODE,) if has_system_node(provider) else ()
    return (CONTROL_PLANE, *system, *fees) if on_cluster else tuple(fees)


def egress_fee(move: DataMove, provider: str, fees: Fees) -> FeeRow | None:
    """Returns the price of a GiB that nodes in a region download; None: unknown."""
    if move.provider is None or (move.provider == provider and move.region is None):
        return None
    name = TO_ANOTHER_REGION if move.provider == provider else TO_THE_INTERNET
    return fees.find("egress_gib", move.provider, move.region, name)


def data_move(showers: Showers) -> DataMove:
    """Returns what each node downloads; the region of a bucket is unknown without a request."""
    return DataMove(gib=showers.gib, provider=of_bucket(showers.source))


def is_free_move(move: DataMove, provider: str, region: str | None) -> bool:
    """Whether a download is free of charge: from this machine, or inside a region."""
    return move.provider is None or (move.provider, move.region) == (provider, region)


def launch_ledger(
    launch: Launch,
    fees: Fees | None = None,
    notices: Sequence[PreemptionNotice] = (),
    *,
    row: PriceRow | None = None,
) -> Ledger:
    """Returns the usage of all attempts.

    Args:
        launch: The attempts.
        fees: Prices beside the nodes; None: those of the package.
        notices: Preemption notices in the run record; without one no node counts as taken.
        row: Price of nodes without one of their own.
    """
    fees = load_fees() if fees is None else fees
    lines: list[Usage] = []
    for number, attempt in enumerate(launch.attempts, start=1):
        if not attempt.is_refused:
            lines += node_usage(number, launch, notices, row)
            lines += _usage_beside(number, launch, fees)
    return Ledger((*lines, *_egress(launch, fees)))


def folder_ledger(launch_file: Path, record_file: Path, row: PriceRow | None = None) -> Ledger:
    """Returns the usage of the run of a folder; an empty one if it was not launched."""
    if not launch_file.exists():
        return Ledger()
    notices = notices_of(read_if_whole(record_file))
    return launch_ledger(launches.read(launch_file), None, notices, row=row)


class LaunchCost(NamedTuple):
    """What the nodes of a launched run cost, whatever its program did.

    Attributes:
        seconds: Sum of the program times of all attempts that ended.
        node_seconds: Billed time of the nodes, start-up included, summed over the nodes.
        usd: The known cost; None: the nodes have no price.
        unknown: What it lacks.
        row: Price of a node; None: unknown.
    """

    seconds: float
    node_seconds: float
    usd: float | None
    unknown: tuple[str, ...]
    row: PriceRow | None

    @property
    def price_row(self) -> str | None:
        """Its identifier."""
        return self.row.row_id if self.row else None


def launch_cost(folder: RunFolder, given: PriceRow | None = None) -> LaunchCost:
    """Prices the attempts of a launched run by its launch.json; `given` prices nodes without a price.

    Raises:
        DataError: The run has not ended, or its launch.json is missing or damaged.
    """
    known = launches.read(folder.launch_file)
    times = [
        (one.program_ended_at - one.program_started_at).total_seconds()
        for one in known.attempts
        if one.program_started_at and one.program_ended_at
    ]
    if not times:
        raise DataError(
            f"{folder.path} has no attempt that ended; run `cloudgan status {folder.path.name}`"
        )
    row = next((one.price for one in reversed(known.attempts) if one.price), given)
    ledger = folder_ledger(folder.launch_file, folder.record_file, given)
    usd = ledger.known_usd if row else None
    return LaunchCost(sum(times), ledger.node_seconds, usd, ledger.total().unknown, row)


def notices_of(record: RunRecord) -> tuple[PreemptionNotice, ...]:
    """Returns the preemption notices of a run record."""
    return tuple(one for one in record.lines if isinstance(one, PreemptionNotice))


def usd_until_now(known: Ledger) -> float:
    """Returns the known cost until now."""
    return known.until(utc_moment()).known_usd


def node_usage(
    number: int,
    launch: Launch,
    notices: Sequence[PreemptionNotice] = (),
    row: PriceRow | None = None,
) -> Iterator[Usage]:
    """Yields the nodes of an attempt: those that launch.json lists, and workers on unlisted ones."""
    attempt = launch.attempts[number - 1]
    price = attempt.price or row
    where = f"attempt {number} on {attempt.provider} {attempt.node_type}"
    taken = _taken_nodes(attempt, notices)
    started = [node for node in attempt.nodes if node.started_at]
    why = f"{where}: a node is still up, or its end was not recorded"
    if price is None:
        why = f"{where} has no price row of a {attempt.market} node in {attempt.region}"
    for node in started:
        rule = billing_rule(attempt.provider, attempt.node_type, node.started_at)
        lasted = node.seconds()
        yield Usage(
            item=Item.NODES,
            row=price if rule else None,
            since=node.started_at,
            until=node.terminated_at,
            rule=rule,
            is_free=node.name in taken
            and rule is not None
            and lasted is not None
            and lasted < rule.free_if_taken_seconds,
            attempt=number,
            why=why if rule else f"{where}: the billing rule of {attempt.provider} is unknown",
        )
    unlisted = tuple(_unlisted(attempt, launch))
    for span in unlisted:
        yield Usage(
            item=Item.NODES,
            row=price,
            units=span.nodes,
            since=span.since,
            until=span.until,
            attempt=number,
            why=why,
        )
    is_open = not attempt.program_started_at and not attempt.end_reason
    if not started and attempt.is_billed and (unlisted or is_open):
        why = f"{where} lists no node: its time before and after the program is unknown"
        if is_open:
            why = f"{where} has not ended and lists no node"
        yield Usage(item=Item.NODES, attempt=number, why=why)
    if attempt.kept:
        yield Usage(
            item=Item.WAITING,
            row=price,
            units=attempt.kept.nodes,
            since=attempt.kept.since,
            until=attempt.kept.since + dt.timedelta(seconds=attempt.kept.seconds()),
            seconds=attempt.kept.seconds(),
            attempt=number,
            why=why,
        )


class _Span(NamedTuple):
    """Nodes that exist for a time."""

    since: dt.datetime
    until: dt.datetime | None
    nodes: int


def _unlisted(attempt: Attempt, launch: Launch) -> Iterator[_Span]:
    """Yields the time of the program on machines that are not listed.

    A worker runs on a node of its own attempt, or on one of the same offer that another attempt left up;
    before that node started, it ran on a machine that was never listed. So a node that is listed later
    never lowers what is known to be spent.
    """
    began, ended = attempt.program_started_at, attempt.program_ended_at
    if began is None:
        return
    starts = sorted(
        node.started_at
        for other in launch.attempts
        if other.offer == attempt.offer
        for node in other.nodes
        if node.started_at
        and (other is attempt or node.terminated_at is None or node.terminated_at > began)
    )
    workers = 1 if attempt.provider == launches.LOCAL else attempt.node_count or 1
    listed = [at for at in starts if ended is None or at < ended][:workers]
    for later in listed:
        if later > began:
            yield _Span(began, later, 1)
    if len(listed) < workers:
        yield _Span(began, ended, workers - len(listed))


def _usage_beside(number: int, launch: Launch, fees: Fees) -> Iterator[Usage]:
    """Yields cluster, disks, addresses, load balancers, data transfer and storage of an attempt."""
    attempt = launch.attempts[number - 1]
    if not attempt.is_billed:
        return
    spans = [_Span(one.started_at, one.terminated_at, 1) for one in attempt.nodes if one.started_at]
    if kept := attempt.kept:
        spans.append(
            _Span(kept.since, kept.since + dt.timedelta(seconds=kept.seconds()), kept.nodes)
        )
    why = f"attempt {number}: a node is still up, or its end was not recorded"
    per_node = [fee for fee in attempt.fees or () if fee.per_node]
    for fee in per_node:
        price = fees.find(fee.kind, attempt.provider, attempt.region, fee.product or None)
        for span in spans:
            yield Usage(
                item=fee.item,
                row=price,
                units=fee.quantity * span.nodes,
                since=span.since,
                until=span.until,
                attempt=number,
                why=why if price else f"no price of {fee.product or fee.kind} in {attempt.region}",
            )
    if attempt.fees is None and spans:
        yield Usage(item=Item.BESIDE_NODES, why="launch.json does not name them", attempt=number)
    if not any(_includes(later, attempt, spans) for later in launch.attempts[number:]):
        yield from _cluster(number, attempt, spans, fees)
    yield from _transfer(number, attempt, fees)
    storage = fees.find("storage_gib_month", attempt.provider, attempt.region)
    why = f"no price of storage in {attempt.provider} {attempt.region}"
    if attempt.stored_gib_months is None:
        why = "launch.json does not contain the volume"
    yield Usage(
        item=Item.STORAGE, row=storage, quantity=attempt.stored_gib_months, attempt=number, why=why
    )


def _cluster(number: int, attempt: Attempt, spans: Sequence[_Span], fees: Fees) -> Iterator[Usage]:
    """Yields what is paid once for the cluster: this run's share of its time.

    Before that is recorded, the time in which the attempt has nodes counts.
    """
    cluster, shared = attempt.cluster, [fee for fee in attempt.fees or () if not fee.per_node]
    if attempt.fees is not None and not shared and cluster is None:
        return  # Cloud TPU machines, or a cluster that existed before
    if cluster is None and not (shared and spans):
        why = "launch.json does not name the cluster of the nodes"
        yield Usage(item=Item.CLUSTER, why=why, attempt=number)
        return
    seconds = cluster.run_seconds if cluster and cluster.deleted_at else None
    if seconds is not None and attempt.kept:
        seconds += attempt.kept.seconds()  # no other run used the cluster for this one
    if cluster and seconds is None:
        why = f"the uptime of cluster {cluster.name} or the runs that shared it were not recorded"
        yield Usage(item=Item.CLUSTER, why=why, attempt=number)
        return
    ends = [span.until for span in spans if span.until]
    since = min((span.since for span in spans), default=None) if seconds is None else None
    until = max(ends) if ends and len(ends) == len(spans) else None
    beside = [fee for fee in shared if fee.kind not in ("control_plane", "system_node")]
    for fee in fees_beside(attempt.provider, beside):
        product, units, why = fee.product, fee.quantity, "a node is still up"
        if cluster and fee is CONTROL_PLANE:
            product = cluster.control_plane or ""
            why = f"no fee of a control plane {product or 'of an unknown kind'}"
        elif cluster and fee is SYSTEM_NODE:
            product, units = cluster.system_node or "", cluster.system_nodes or 0
            if cluster.system_nodes == 0:
                continue
            why = f"number or price of system nodes {product or 'of unknown type'} is unknown"
        is_named = bool(product) or cluster is None or fee not in (CONTROL_PLANE, SYSTEM_NODE)
        price = fees.find(fee.kind, attempt.provider, attempt.region, product or None)
        if price and cluster is None and fee is SYSTEM_NODE:
            price = fees.dearest(price)  # its size is known when the cluster is recorded
        line = Usage(
            item=fee.item,
            row=price if is_named and units else None,
            units=units,
            since=since,
            until=until,
            quantity=None if seconds is None else seconds * units,
            seconds=seconds,
            attempt=number,
            why=why if price else f"no price of {product or fee.kind} in {attempt.region}",
        )
        yield line
        if cluster and cluster.idle_since:
            kept_until = max((span.until for span in spans if span.until), default=None)
            yield replace(
                line,
                since=max(cluster.idle_since, kept_until or cluster.idle_since),
                until=cluster.idle_until,
                quantity=None,
                seconds=None,
                why=f"cluster {cluster.name} waits for another run and bills until it is deleted",
            )


def _includes(later: Attempt, attempt: Attempt, spans: Sequence[_Span]) -> bool:
    """Whether the share that a later attempt recorded includes the cluster of an attempt.

    It is what the run pays of all the time since the cluster was created.
    """
    one, before = later.cluster, attempt.cluster
    if one is None or one.created_at is None or one.deleted_at is None or one.run_seconds is None:
        return False
    if (later.provider, later.region) != (attempt.provider, attempt.region):
        return False
    if before and before.created_at:
        return (before.name, before.created_at) == (one.name, one.created_at)
    return any(one.created_at <= span.since < one.deleted_at for span in spans)


def _transfer(number: int, attempt: Attempt, fees: Fees) -> Iterator[Usage]:
    """Yields the download of the data by each node."""
    move, nodes = attempt.data, sum(1 for node in attempt.nodes if node.started_at)
    if move is None or not nodes or is_free_move(move, attempt.provider, attempt.region):
        return
    yield Usage(
        item=Item.TRANSFER,
        row=egress_fee(move, attempt.provider, fees),
        quantity=None if move.gib is None else move.gib * nodes,
        attempt=number,
        why="the size or the region of the data is unknown, or the price of its egress",
    )


def _egress(launch: Launch, fees: Fees) -> Iterator[Usage]:
    """Yields the download of the results: once for the run, whichever attempt it is noted in."""
    billed = [one for one in launch.attempts if one.is_billed and not one.is_refused]
    known = [one for one in billed if one.egress_gib is not None]
    for one in known or billed[-1:]:
        yield Usage(
            item=Item.EGRESS,
            row=fees.find("egress_gib", one.provider, one.region, TO_THE_INTERNET),
            quantity=one.egress_gib,
            attempt=launch.attempts.index(one) + 1,
            why="launch.json does not contain the volume"
            if one.egress_gib is None
            else f"no price of egress in {one.provider} {one.region}",
        )


def _taken_nodes(attempt: Attempt, notices: Sequence[PreemptionNotice]) -> frozenset[str]:
    """Returns the names of the spot nodes that the cloud took, one for each of its notices."""
    if attempt.market != "spot":
        return frozenset()
    ends = {node.name: node.terminated_at for node in attempt.nodes if node.terminated_at}
    for notice in notices:
        if notice.cloud != attempt.provider:
            continue
        read = parse_time(notice.time)
        first = min(ends, key=lambda name: abs(ends[name] - read), default="")
        if first and abs(ends[first] - read) <= _NOTICE_WINDOW:
            del ends[first]
    ended = frozenset(node.name for node in attempt.nodes if node.terminated_at)
    return ended - ends.keys()
