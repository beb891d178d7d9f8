"""`CloudPlanner` (pure, no SDK) and the functions that open a cloud's planner or client by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from cloudgan.core import clouds
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.labels import derived_name
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.schema.plan import NodePool, Plan, Step, Target, Workers
from cloudgan.schema.price_row import Market, PoolFee

_WRITES_OF_NODE, _WRITES_OF_RUN, _READS_OF_RUN = 300, 700, 3600
"""Requests to the bucket in an hour. A node writes its heartbeat every 15 s and its log every minute; a run its
record, checkpoints and launch.json, which the launcher reads: counted on 2 nodes with epochs of 12 s
(2026-12-01), rounded up. Longer epochs have fewer, and each node reads the data once, in some hundreds."""


@dataclass(frozen=True)
class NodePoolRequest:
    """The nodes that a run needs, in terms that hold for every cloud; most are those of `NodePool`.

    Attributes:
        has_own_image: Whether the user passed `--image`.
    """

    run: str
    spec_hash: str
    node_type: str
    market: Market
    nodes: int
    flex_start: bool = False
    keep_cluster: bool = False
    keep_seconds: float = 0.0
    served_runs: int = 1
    has_own_image: bool = False
    internal_ips: bool = False
    reservation: str | None = None

    def pool(self, longest_name: int, *, hyphens: bool = True, **own: Any) -> NodePool:
        """Returns the node pool of these nodes, with what is `own` to a cloud.

        All nodes are in one zone and the bucket is in their region: no traffic between zones is billed.
        """
        name = derived_name(self.run, self.spec_hash, longest_name, hyphens=hyphens)
        asked = {key: one for key, one in vars(self).items() if key in NodePool.model_fields}
        pool = NodePool(**{"name": name} | asked | own)
        writes = _WRITES_OF_NODE * pool.hosts + _WRITES_OF_RUN / self.nodes
        requests = {"writes and lists": writes, "reads": _READS_OF_RUN / self.nodes}
        fees, notes = pool.fees, pool.notes
        fees += tuple(
            PoolFee(kind="requests", product=what, quantity=n) for what, n in requests.items()
        )
        if pool.reservation and not pool.prepaid:
            fees += (PoolFee(kind="reservation", product=f"reservation {pool.reservation}"),)
            note = (
                f"the nodes use reservation {pool.reservation}: it is billed at about the on-demand price,"
                " less committed-use discounts, for as long as it exists, also before and after this run"
            )
            notes = (*notes, note)
        return pool.model_copy(update={"fees": fees, "notes": notes})


def reservation_parts(pattern: re.Pattern[str], text: str, expected: str) -> tuple[str, ...]:
    """Returns the parts of the name that --reservation gives; a part that it lacks is empty."""
    found = pattern.fullmatch(text)
    if found is None:
        raise ConfigError(f"--reservation={shorten(text)} is not valid: give {expected}")
    return found.groups("")


def unused_network(wanted: NodePoolRequest, name: str) -> tuple[str, ...]:
    """Returns the note on nodes whose fast network is not used."""
    if wanted.nodes == 1 or not name:
        return ()
    note = (
        f"{wanted.nodes} x {wanted.node_type} exchange gradients over the ordinary network: cloudgan does"
        f" not set up {name}, so they scale worse than measured elsewhere"
    )
    return (note,)


class CloudPlanner(Protocol):
    """The pure functions of ``clouds/NAME/planner.py``."""

    def target(
        self, account: str | None, region: str, zone: str | None, cluster: str | None
    ) -> Target:
        """Returns a target in this cloud, with ``<...>`` placeholders for unknown values."""

    def node_pool(self, wanted: NodePoolRequest) -> NodePool:
        """Returns the node pool for a request."""

    def workers(self, workers: Workers, node_pool: NodePool) -> Workers:
        """Returns the workers with the pool's accelerators, taints, labels and grace period."""

    def store_url(self, target: Target) -> str:
        """Returns the URL of the account's bucket in the target's region."""

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps before those of the cluster's own objects.

        Order: bucket, desired state (in the store), cluster, pool, cluster add-ons for accelerators.
        """

    def keep_steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the requests at the end of a run that keeps its nodes: they end without a launcher."""

    def setup_steps(self, target: Target) -> tuple[Step, ...]:
        """Returns the one-time steps of an account and region: bucket, identities, permissions.

        No run owns these resources: they carry the label ``cloudgan-shared`` or, without label
        support, the name prefix ``cloudgan-``. `CloudClient.list_resources` lists them with a
        deletion order of at least 60.
        """


def pool_of(plan: Plan) -> NodePool:
    """Returns the node pool of a plan; each plan on nodes of a cloud has one."""
    assert plan.node_pool is not None  # noqa: S101
    return plan.node_pool


def with_login(target: Target, login: Mapping[str, str]) -> Target:
    """Returns a target with its placeholders filled from a login."""
    filled = {
        key: next((login[name] for name in login if value == f"<{name}>"), value)
        for key, value in target.model_dump().items()
    }
    return target.model_validate(filled)


def desired_state_step(plan: Plan) -> Step:
    """Returns the step that writes a run's desired state to its store."""
    return Step(
        ensure=f"desired state of run {plan.run}",
        method="PUT",
        path=f"{plan.store}/runs/{plan.run}/desired-state/",
        at="store",
    )


def cloud_planner(name: str) -> CloudPlanner:
    """Returns the planner of a cloud."""
    return cast("CloudPlanner", clouds.load(name, clouds.find(name).planner))


def open_cloud(target: Target, say: Callable[[str], None] = lambda _: None) -> CloudClient:
    """Opens the client of a target's cloud with the login that its SDK finds."""
    client = clouds.load(target.provider, clouds.find(target.provider).client)
    opened: CloudClient = client.open(target, say)
    return opened
