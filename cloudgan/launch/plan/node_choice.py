"""Chooses the nodes of a plan in a cloud: matches offers, ranks them for the job, compares the markets.

Offers are those of the price catalog; `--allow-unknown-price` takes the node type that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from cloudgan.core import machines
from cloudgan.core.clouds import CLOUDS, choices, of_bucket
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import BudgetError, ConfigError, PlanError, UnknownNameError
from cloudgan.launch.backends.tpu_vm.requests import ENGINE, check_no_secrets, unsupported_reason
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.plan.candidates import (
    OfferConstraints,
    Ranking,
    best_of,
    rank,
    selection_of,
    usable_options,
)
from cloudgan.launch.plan.flags import CHEAPEST
from cloudgan.launch.plan.launch_job import Node, UnpricedNode, batch_rule, usd_of_earlier_attempts
from cloudgan.launch.plan.request import AttemptHistory, LaunchRequest
from cloudgan.money.billing import data_move
from cloudgan.money.catalog import Catalog, is_of, is_same, load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, job_cost, load_startup_times
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import JobCost, NodePool, Plan, Selection, Showers
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.speed.candidates import PricedJob
from cloudgan.speed.measured import PAPER_SHOWERS, replicas
from cloudgan.speed.model import ThroughputModel

NONE_THERE = "has none of them"


@dataclass(frozen=True)
class ChosenNodes:
    """The nodes of a plan.

    Attributes:
        price: Price of one node; None: unknown.
        cost: Cost of the whole job; None: unknown.
        global_batch: Showers per step of all replicas, if selected with the nodes; None: as requested.
    """

    node: Node
    nodes: int
    selection: Selection
    global_batch: int | None
    price: PriceRow | None = None
    cost: JobCost | None = None


@dataclass(frozen=True)
class NodeChoice:
    """The choice of nodes for a job; what follows from them is missing in its configuration."""

    request: LaunchRequest
    history: AttemptHistory
    config: RunConfig
    showers: Showers
    speeds: ThroughputModel

    def choose(self) -> ChosenNodes:
        """Returns the best nodes.

        Raises:
            PlanError: No offer matches, or none can be provisioned.
        """
        history = self.history
        is_open = history.first is not None or self.request.price_as
        catalog = load_catalog(None if is_open else self.request.accelerator_name)
        regions = self.request.regions_in(self.request.provider)
        request = self.request.model_copy(update={"regions": regions})
        try:
            found = _find_offers(request, history, catalog, of_bucket(self.showers.source))
        except PlanError:
            if not request.allow_unknown_price or history.first is not None:
                raise
            node, nodes = _unpriced_node(request, catalog), request.nodes or 1
            why = Selection(
                reason=f"--allow-unknown-price: the price of {node.node_type} in {node.region} is unknown",
                market_reason="as requested"
                if request.fixed_market
                else "on demand: without a price the benefit of spot is unknown",
            )
            return ChosenNodes(node, nodes, why, self._global_batch(node, nodes))
        context = JobContext(
            fees=load_fees(),
            startups=load_startup_times(),
            data_move=data_move(self.showers),
            gang_timeout_seconds=request.effective_gang_timeout_seconds,
            keep_seconds=request.keep_nodes_seconds,
        )
        constraints = self._constraints(found.named)
        offers: dict[str, tuple[PriceRow, ...]] = {}
        if history.first is None and not (request.price_as or request.reservation):
            offers = _offers_of_clouds(self.request, catalog)
        near = chain.from_iterable(its for name, its in offers.items() if not self._is_far(name))
        rows = dict.fromkeys((*found.rows, *near))
        options = usable_options(rows, self.speeds, constraints, context, self._node_pool)
        try:
            ranking = rank(options.of(found.rows), constraints)
        except (BudgetError, PlanError) as error:
            if self.showers.are_counted:
                raise
            raise type(error)(
                f"{error}. The paper's {PAPER_SHOWERS:,} showers are assumed, since those of"
                f" {self.showers.source} are not counted here: give --nodes=N, or --data=FILE.h5"
            ) from error
        ranking = best_of(ranking, history.offer, found.description)
        best, config = ranking.usable[0], self.config
        why = selection_of(
            ranking,
            found.description,
            config.model.network_name,
            config.training.epochs,
            self._market_reason(),
        )
        if offers:
            markets, without = self._markets(offers, options, constraints)
            why = why.model_copy(update={"markets": markets, "without": without})
        batch = self._global_batch(best.row, best.nodes, best.global_batch)
        pool = self._node_pool(best.row, best.nodes)
        if pool.prepaid:
            if request.budget_usd is None and request.max_usd_per_hour is None:
                return ChosenNodes(best.row, best.nodes, why, batch)
            raise ConfigError(
                f"--reservation={request.reservation} was paid in advance, at a price that no API states, so"
                " --budget-usd and --max-usd-per-hour cannot hold: omit them and limit the run by --max-hours"
            )
        seconds = None  # unknown, if not its number of epochs ends the job
        if best.low_seconds is not None and config.ends_with_its_epochs:
            seconds = (best.low_seconds, best.seconds)
        is_there = pool.engine == "cluster"
        cost = job_cost(
            best.row, best.nodes, seconds, context, on_cluster=is_there, fees=pool.fees
        ).cost
        return ChosenNodes(best.row, best.nodes, why, batch, best.row, cost)

    def _node_pool(self, row: PriceRow, nodes: int) -> NodePool:
        wanted = pool_request(self.request.name or "draft", self.request, row, nodes)
        pool = cloud_planner(row.provider).node_pool(wanted)
        if pool.engine == ENGINE:
            check_no_secrets((*self.request.secrets, *self.request.kubernetes_secrets))
        return pool

    def _constraints(self, named: frozenset[str]) -> OfferConstraints:
        request, first = self.request, self.history.first
        nodes = request.nodes
        if first is not None:
            nodes = None if request.fallback == "any" else first.workers.nodes
        batch = first.config.training.global_batch_size if first else None
        run = first.run if first else request.name or "draft"
        spent = usd_of_earlier_attempts(RunFolder(RUNS / run))
        return OfferConstraints(
            job=PricedJob(self.config.training.epochs, batches=batch_rule(self.config, batch)),
            nodes=nodes,
            max_seconds=request.max_hours * HOUR_SECONDS,
            max_usd=None if request.budget_usd is None else request.budget_usd - spent,
            max_usd_per_hour=request.max_usd_per_hour,
            allowed_accelerators=named,
            allow_unmeasured=request.allow_unmeasured,
            must_finish=first is None
            and self.config.ends_with_its_epochs
            and self.showers.are_counted,
            apply_break_even=request.fixed_market is None and self._price_as is None,
            excluded=self.history.excluded,
        )

    def _market_reason(self) -> str:
        """Why the market is not chosen by the break-even rule; "": it is."""
        request = self.request
        if request.reservation:
            return f"--reservation={request.reservation}"
        if request.market != "auto":
            return f"--market={request.market}"
        if request.flex_start:
            return "--flex-start"
        return f"--price-as={self._price_as}" if self._price_as else ""

    @property
    def _price_as(self) -> str | None:
        """The offer that --price-as names; later attempts may leave it."""
        return self.request.price_as if self.history.first is None else None

    def _markets(
        self,
        offers: dict[str, tuple[PriceRow, ...]],
        options: Ranking,
        constraints: OfferConstraints,
    ) -> tuple[tuple[Candidate, ...], dict[str, str]]:
        """The best nodes for the job in each cloud and market, and why a cloud has none."""
        found: list[Candidate] = []
        without: dict[str, str] = {}
        constraints = replace(constraints, apply_break_even=False)
        for name, rows in offers.items():
            best: list[Candidate] = []
            why = NONE_THERE
            is_far = self._is_far(name)
            if rows and is_far:
                why = "the data are in another cloud"
            for market in ("spot", "on_demand"):
                there = [row for row in rows if row.market == market and not is_far]
                try:
                    ranking = rank(options.of(there), constraints)
                except (BudgetError, PlanError) as error:
                    why = str(error)
                    continue
                best += ranking.usable[:1]
                why = ranking.rejected[0].why_not if ranking.rejected else why
            found += best
            if not best:
                without[name] = why
        return tuple(found), without

    def _is_far(self, cloud: str) -> bool:
        """Whether the data are in another cloud."""
        return of_bucket(self.showers.source) not in (None, cloud)

    def _global_batch(self, node: Node, nodes: int, chosen: int | None = None) -> int | None:
        """Returns the global batch that later attempts must keep; None: as requested."""
        if (first := self.history.first) is not None:
            return first.config.training.global_batch_size
        if self.request.nodes is None and chosen is not None:
            return chosen
        if self.request.nodes is not None and self.request.fallback != "any":
            return None
        return self.config.global_batch(replicas(node, nodes))


def pool_request(run: str, request: LaunchRequest, node: Node, nodes: int) -> NodePoolRequest:
    """Returns what a cloud is asked for; its specification hash is not known yet."""
    keep = request.keep_nodes_seconds
    return NodePoolRequest(
        run=run,
        spec_hash="",
        node_type=node.node_type,
        market=node.market,
        nodes=nodes,
        flex_start=request.flex_start,
        reservation=request.reservation,
        keep_cluster=request.keep_cluster,
        keep_seconds=keep,
        served_runs=max(request.served_runs, 2 if keep else 1),
        has_own_image=request.image is not None,
        internal_ips=request.internal_ips,
    )


class _Offers(NamedTuple):
    """Offers that match a request, in both markets if it leaves the market open.

    Attributes:
        named: Accelerators that the request names; they need no measured throughput.
    """

    rows: tuple[PriceRow, ...]
    description: str
    named: frozenset[str]


def _find_offers(
    request: LaunchRequest, history: AttemptHistory, catalog: Catalog, data_cloud: str | None
) -> _Offers:
    """Returns the offers that match a request; its data are in a cloud, or None: on this machine.

    Raises:
        PlanError: No price matches, or the node type is discontinued.
    """
    first = history.first
    if request.price_as and first is None:
        row = catalog.row(request.price_as)
        _check_offer(row, request)
        return _Offers((row,), row.offer, frozenset({row.accelerator}))
    if first is not None and request.fallback != "any":
        return _same_accelerators(first, request, catalog, data_cloud)
    where = "any cloud" if request.provider == CHEAPEST else " or ".join(request.clouds)
    where += {"spot": " spot", "on_demand": " on demand"}.get(request.market, "")
    where += f" in {' or '.join(request.regions)}" if request.regions else ""
    description = f"{request.accelerator or 'any accelerator'} on {where}"
    rows = _of_accelerator(request, catalog) if first is None else catalog.find()
    rows = tuple(row for row in rows if _matches(row, request, data_cloud))
    if not rows:
        name = request.accelerator_name or "NAME"
        cloud = None if request.chooses_cloud else request.provider
        count = request.accelerator_count if request.has_accelerator_count else None
        machines.refuse_missing_accelerator(cloud, name, count)
        catalog = load_catalog()
        hint = catalog.region_hint(cloud, request.regions)
        if request.accelerator:
            hint += catalog.count_hint(cloud, request.accelerator)
        raise PlanError(
            f"no price is known for {description}.{hint} `cloudgan offers --accelerator={name}` lists"
            " known prices, `cloudgan prices refresh` fetches current ones, and"
            " --allow-unknown-price with a node type (--accelerator=TYPE) and one --region"
            " provisions it without a price"
        )
    named: frozenset[str] = frozenset()
    if first is None and (asked := request.accelerator_name):
        known = frozenset(row.accelerator for row in rows)
        named = frozenset(one for one in known if is_same(one, asked)) or known
    return _Offers(rows, description, named)


def _offers_of_clouds(request: LaunchRequest, catalog: Catalog) -> dict[str, tuple[PriceRow, ...]]:
    """Returns the offers of each cloud in both markets that have the requested accelerators.

    Regions were requested of one cloud: they restrict the clouds that have one of that name.
    """
    rows = _of_accelerator(request, catalog)
    found = {name: tuple(row for row in rows if row.provider == name) for name in CLOUDS}
    return {
        name: tuple(row for row in its if row.region in request.regions) or its
        for name, its in found.items()
    }


def _check_offer(row: PriceRow, request: LaunchRequest) -> None:
    """Refuses --price-as if --provider or --accelerator contradict it."""
    if row.provider not in request.clouds:
        raise ConfigError(
            f"--price-as={row.offer} is in {row.provider}, and --provider={request.provider} was"
            " given; they must agree"
        )
    name, count = request.accelerator_name, request.accelerator_count
    if name is None or name.casefold() == row.node_type.casefold():
        return
    if not is_of(row.accelerator, name) or (
        request.has_accelerator_count and count != row.accelerator_count
    ):
        raise ConfigError(
            f"--price-as={row.offer} has {row.accelerator_count} x {row.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )


def _same_accelerators(
    first: Plan, request: LaunchRequest, catalog: Catalog, data_cloud: str | None
) -> _Offers:
    """Offers with the first attempt's accelerators; without fallback only its node type and region."""
    price = first.price
    if price is None:
        raise PlanError("cannot fall back: the node type of the first attempt has no price")
    rows = [
        row
        for row in catalog.find()
        if (row.accelerator, row.accelerator_count) == (price.accelerator, price.accelerator_count)
        and _matches(row, request, data_cloud)
    ]
    if request.fallback == "none":
        location = (price.provider, price.node_type, price.region)
        rows = [row for row in rows if (row.provider, row.node_type, row.region) == location]
    description = f"{price.accelerator}:{price.accelerator_count}"
    if not rows:
        raise PlanError(f"no other offer with {description} matches the request")
    return _Offers(tuple(rows), description, frozenset({price.accelerator}))


def _of_accelerator(request: LaunchRequest, catalog: Catalog) -> tuple[PriceRow, ...]:
    name = request.accelerator_name
    if name is None:
        return tuple(row for row in catalog.find() if row.accelerator_count > 0)
    machines.refuse_retired(None, name)
    if why := unsupported_reason(name):
        raise PlanError(why)
    try:
        rows = catalog.find(accelerator=request.accelerator)
    except UnknownNameError as error:
        if request.allow_unknown_price:
            return ()
        raise ConfigError(
            f"{error} A node type, such as v3-8 or g5.xlarge, is valid too"
        ) from error
    if request.has_accelerator_count or request.nodes is None:
        return rows
    least: dict[str, int] = {}  # that each cloud sells: the default without a count
    for row in rows:
        count = row.accelerator_count
        least[row.provider] = min(least.get(row.provider, count), count)
    return tuple(row for row in rows if row.accelerator_count == least[row.provider])


def _matches(row: PriceRow, request: LaunchRequest, data_cloud: str | None) -> bool:
    clouds = (data_cloud,) if data_cloud in request.clouds else request.clouds
    return (
        row.provider in clouds
        and (not request.regions or row.region in request.regions)
        and request.fixed_market in (None, row.market)
    )


def _unpriced_node(request: LaunchRequest, catalog: Catalog) -> UnpricedNode:
    """Returns the requested node type, with its resources if it is in the table of machines."""
    name = request.accelerator_name
    if request.chooses_cloud or name is None or len(request.regions) != 1:
        raise ConfigError(
            "--allow-unknown-price provisions one node type in one region of one cloud: give"
            f" --provider={choices()}, --accelerator=TYPE and --region"
        )
    if request.budget_usd is not None or request.max_usd_per_hour is not None:
        raise ConfigError(
            "--budget-usd and --max-usd-per-hour need a price, and this node type has none: omit"
            " them and limit the run by --max-hours"
        )
    if any(is_of(row.accelerator, name) for row in catalog.rows):
        raise ConfigError(
            f"--accelerator={name} is an accelerator; with --allow-unknown-price give a node type,"
            " such as a2-highgpu-1g or g5.xlarge"
        )
    market = request.fixed_market or "on_demand"
    region = request.regions[0]
    if one := machines.find(request.provider, name):
        kind = (one.accelerator, one.accelerators, one.vcpu, one.memory_gib)
        return UnpricedNode(one.provider, one.node_type, *kind, region, market)
    return UnpricedNode(request.provider, name, name, 1, None, None, region, market)
