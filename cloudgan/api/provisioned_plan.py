"""Plans a run on provisioned nodes: searches offers, ranks them, and builds the plan of the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.api.grid_plan import showers_of
from cloudgan.api.launch_data import find_data
from cloudgan.api.matching_offers import (
    find_offers,
    offers_of_clouds,
    unpriced_choice,
    unpriced_node,
)
from cloudgan.api.plan_inputs import (
    batch_rule,
    on_demand_price,
    plan_request,
    request_workers,
    run_config,
    throughput_model,
    usd_of_earlier_attempts,
)
from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import of_bucket
from cloudgan.core.errors import BudgetError, ConfigError, PlanError
from cloudgan.cost.estimation.candidates import PricedJob
from cloudgan.cost.estimation.measured_runs import replicas
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.cost.prices.fees import load_fees
from cloudgan.cost.prices.startup import load_startup_times
from cloudgan.launch.backends.tpu_vm.requests import ENGINE, check_no_secrets
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.planning.job_cost import WAITING, DataMove, JobContext, job_cost, with_waiting
from cloudgan.launch.planning.plan_builder import all_steps, make_plan, with_node_pool
from cloudgan.launch.planning.ranking import (
    OfferConstraints,
    best_option,
    prefer_offer,
    rank,
    selection_of,
)
from cloudgan.schema.plan import MarketOffer, Selection, Workers
from cloudgan.schema.run_folder import RUNS, RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.api.attempt_history import AttemptHistory
    from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
    from cloudgan.api.plan_inputs import Training
    from cloudgan.cost.estimation.throughput_model import ThroughputModel
    from cloudgan.cost.prices.catalog import Catalog
    from cloudgan.launch.clouds.planner import Clouds
    from cloudgan.launch.planning.node_types import NodeType
    from cloudgan.launch.planning.ranking import RankedOption
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.plan import JobCost, NodePool, Plan, Showers, Wheel
    from cloudgan.schema.price_row import PriceRow

_MARKET_WHY = {"spot": "--market=spot", "on_demand": "--market=on_demand", "auto": ""}


class SelectedNodes(NamedTuple):
    """The nodes of a plan.

    Attributes:
        node: Node type.
        nodes: Number of nodes.
        price: Price of one node; None: unknown.
        cost: Cost of the whole job; None: unknown.
        selection: Why these nodes were selected.
        global_batch: Showers per step of all replicas, if selected with the nodes; None: as requested.
    """

    node: NodeType
    nodes: int
    price: PriceRow | None
    cost: JobCost | None
    selection: Selection
    global_batch: int | None = None


def provisioned_plan(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    training: Training,
    wheels: Callable[[str | None, bool], tuple[Wheel, ...]],
    *,
    clouds: Clouds,
    history: AttemptHistory,
) -> Plan:
    """Returns the plan of a run on provisioned nodes; see `planning.make_launch_plan`."""
    one = Workers(nodes=request.nodes or 1, cpus=1, memory_gib=1)
    draft = run_config(request, training, one, name="draft")
    showers = showers_of(draft.grid) or find_data(
        draft.data.path, "", moves=False, unit=draft.data.unit
    )
    search = _OfferSearch(request, provisioning, clouds, history, draft, showers)
    selected = search.select()
    workers = request_workers(request, selected.nodes, selected.node)
    name = history.first.run if history.first else None
    config = run_config(request, training, workers, name=name, global_batch=selected.global_batch)
    target = clouds.planner(selected.node.provider).target(
        provisioning.account, selected.node.region, provisioning.zone, provisioning.cluster
    )
    target = provisioning.complete(target)
    inputs = plan_request(
        request,
        provisioning,
        config=config,
        target=target,
        workers=workers,
        store=request.store
        or history.stores.get(target.provider)
        or clouds.planner(target.provider).store_url(target),
        wheels=wheels,
        gang_timeout_seconds=_gang_timeout(request, provisioning, selected),
        price=selected.price,
        cost=selected.cost,
        selection=selected.selection,
        run_spec_hash=history.first.spec_hash if history.first else None,
    )
    pool = _pool_request(config.name, request, provisioning, selected.node, selected.nodes)
    inputs = with_node_pool(inputs, pool, clouds)
    speeds = throughput_model(config, inputs.showers)
    plan = make_plan(inputs, speeds, lambda plan: all_steps(plan, clouds), utc_moment())
    warnings = (*_market_warnings(plan, provisioning), *_waiting_warnings(plan, provisioning))
    return plan.model_copy(update={"warnings": (*plan.warnings, *warnings)})


@dataclass(frozen=True)
class _OfferSearch:
    """Selects the nodes for a request.

    Attributes:
        config: Configuration of the run, except for the number of workers.
        showers: Its training data.
    """

    request: LaunchRequest
    provisioning: ProvisioningRequest
    clouds: Clouds
    history: AttemptHistory
    config: RunConfig
    showers: Showers

    def select(self) -> SelectedNodes:
        """Returns the best offer.

        Raises:
            ConfigError: The zone is not in a requested region.
            PlanError: No offer matches, or none can be provisioned.
        """
        request, history, catalog = self.request, self.history, load_catalog()
        provisioning = self.provisioning.restricted_to_zone(request.provider)
        try:
            found = find_offers(request, provisioning, history, catalog, self._data_cloud())
        except PlanError:
            if not provisioning.allow_unknown_price or history.first is not None:
                raise
            node = unpriced_node(request, provisioning, catalog)
            why = unpriced_choice(node, provisioning)
            nodes = request.nodes or 1
            batch = self._global_batch(node, nodes)
            return SelectedNodes(node, nodes, None, None, why, batch)
        speeds = throughput_model(self.config, self.showers)
        constraints, context = self._constraints(found.named), self._job_context()
        ranking = rank(found.rows, speeds, constraints, context, self._node_pool)
        ranking = prefer_offer(ranking, history.offer)
        best = best_option(ranking, found.description)
        market_why = _MARKET_WHY[provisioning.market] or (
            "--flex-start" if provisioning.flex_start else ""
        )
        if request.reservation:
            market_why = f"--reservation={request.reservation}"
        config = self.config
        why = selection_of(
            ranking,
            found.description,
            config.model.network_name,
            config.training.epochs,
            market_why,
        )
        if history.first is None and not (request.price_as or request.reservation):
            why = why.model_copy(
                update={"markets": self._markets(catalog, speeds, constraints, context)}
            )
        batch = self._global_batch(best.row, best.nodes, best.global_batch)
        if best.node_pool.prepaid:
            _require_no_price_limit(request, provisioning)
            return SelectedNodes(best.row, best.nodes, None, None, why, batch)
        cost = with_waiting(
            self._cost(best, context), best.row, best.nodes, self.provisioning.keep_nodes_seconds
        )
        return SelectedNodes(best.row, best.nodes, best.row, cost, why, batch)

    def _markets(
        self,
        catalog: Catalog,
        speeds: ThroughputModel,
        constraints: OfferConstraints,
        context: JobContext,
    ) -> tuple[MarketOffer, ...]:
        """The best nodes for the job in each cloud and market."""
        found: list[MarketOffer] = []
        constraints = replace(constraints, apply_break_even=False)
        for name, rows in offers_of_clouds(self.request, self.provisioning, catalog).items():
            options: list[RankedOption] = []
            why = "has none of them"
            is_far = self._data_cloud() not in (None, name)
            if rows and is_far:
                why = "the data are in another cloud"
            for market in ("spot", "on_demand"):
                of_market = [row for row in rows if row.market == market and not is_far]
                try:
                    ranking = rank(of_market, speeds, constraints, context, self._node_pool)
                except (BudgetError, PlanError) as error:
                    why = str(error)
                    continue
                options += ranking.options[:1]
                why = ranking.rejected[0].reason if ranking.rejected else why
            found += [_market_offer(one) for one in options]
            found += [] if options else [MarketOffer(provider=name, why_none=why)]
        return tuple(found)

    def _global_batch(self, node: NodeType, nodes: int, chosen: int | None = None) -> int | None:
        """Returns the global batch that later attempts must keep; None: as requested."""
        first = self.history.first
        if first is not None:
            return first.config.training.global_batch_size
        if self.request.nodes is None and chosen is not None:
            return chosen
        if self.request.nodes is not None and self.provisioning.fallback != "any":
            return None
        return self.config.global_batch(replicas(node, nodes))

    def _constraints(self, named: frozenset[str]) -> OfferConstraints:
        request, first = self.request, self.history.first
        nodes = request.nodes
        if first is not None:
            nodes = None if self.provisioning.fallback == "any" else first.workers.nodes
        batch = first.config.training.global_batch_size if first else None
        run = first.run if first else request.name or "draft"
        spent = usd_of_earlier_attempts(RunFolder(RUNS / run))
        return OfferConstraints(
            job=PricedJob(self.config.training.epochs, batches=batch_rule(self.config, batch)),
            nodes=nodes,
            max_seconds=request.max_hours * 3600,
            max_usd=None if request.budget_usd is None else request.budget_usd - spent,
            max_usd_per_hour=self.provisioning.max_usd_per_hour,
            allowed_accelerators=named,
            allow_unmeasured=self.provisioning.allow_unmeasured,
            must_finish=first is None and self.config.ends_with_its_epochs,
            apply_break_even=self.provisioning.fixed_market is None,
            excluded=self.history.excluded,
        )

    def _job_context(self) -> JobContext:
        return JobContext(
            fees=load_fees(),
            startups=load_startup_times(),
            data_move=DataMove(self.showers.gib, self._data_cloud(), None),
            gang_timeout_seconds=self.request.effective_gang_timeout_seconds,
        )

    def _node_pool(self, row: PriceRow, nodes: int) -> NodePool:
        run = self.request.name or "draft"
        wanted = _pool_request(run, self.request, self.provisioning, row, nodes)
        pool = self.clouds.planner(row.provider).node_pool(wanted)
        if pool.engine == ENGINE:
            check_no_secrets((*self.request.secrets, *self.request.kubernetes_secrets))
        return pool

    def _cost(self, option: RankedOption, context: JobContext) -> JobCost:
        """Cost of the job; its length is unknown if not its number of epochs ends it."""
        if self.config.ends_with_its_epochs:
            return option.priced.cost
        pool = option.node_pool
        on_cluster = pool.engine == "cluster"
        return job_cost(
            option.row, option.nodes, None, context, on_cluster=on_cluster, fees=pool.fees
        ).cost

    def _data_cloud(self) -> str | None:
        return of_bucket(self.showers.source)


def _market_offer(option: RankedOption) -> MarketOffer:
    ahead, cost = option.candidate, option.priced.cost
    return MarketOffer(
        provider=option.row.provider,
        market=option.row.market,
        nodes=option.nodes,
        node_type=option.row.node_type,
        usd_per_hour=option.usd_per_hour,
        low_seconds=ahead.low_seconds if ahead else None,
        seconds=ahead.seconds if ahead else None,
        low_usd=cost.known_low_usd if ahead else None,
        usd=cost.known_usd if ahead else None,
    )


def _market_warnings(plan: Plan, provisioning: ProvisioningRequest) -> list[str]:
    """States the price of the on-demand nodes that --market=auto can fall back to."""
    row = plan.price
    if row is None or row.market != "spot" or provisioning.fixed_market is not None:
        return []
    on_demand = on_demand_price(row)
    if on_demand is None:
        return []
    rate = on_demand.hourly_usd(plan.workers.nodes)
    minutes = plan.limits.gang_timeout_seconds / 60
    warning = (
        f"spot nodes that are not ready within {minutes:.3g} min, or are preempted too often, are"
        f" replaced by on-demand nodes for {rate:.2f} USD per hour; --market=spot prevents that"
    )
    return [warning]


def _require_no_price_limit(request: LaunchRequest, provisioning: ProvisioningRequest) -> None:
    if request.budget_usd is None and provisioning.max_usd_per_hour is None:
        return
    raise ConfigError(
        f"--reservation={request.reservation} was paid in advance, at a price that no API states, so"
        " --budget-usd and --max-usd-per-hour cannot hold: omit them and limit the run by --max-hours"
    )


def _waiting_warnings(plan: Plan, provisioning: ProvisioningRequest) -> list[str]:
    """States what nodes that wait for an unknown next run cost, and which startup they save."""
    pool, cost = plan.node_pool, plan.cost
    if pool is None or not pool.keep_seconds or provisioning.served_runs > 1:
        return []
    found = next((part.usd for part in cost.parts if part.name == WAITING), None) if cost else None
    price = "an unknown amount" if found is None else f"up to {found:.2f} USD"
    saved = "a startup whose time was not measured"
    if cost and cost.startup_seconds is not None and cost.startup_low_seconds is not None:
        low, high = cost.startup_low_seconds / 60, cost.startup_seconds / 60
        saved = f"{low:.0f} to {high:.0f} min of startup"
    warning = (
        f"--keep-nodes: after the run its nodes wait {pool.keep_seconds / 60:.3g} min for the next one,"
        f" which costs {price} and saves that run {saved}; the cluster bills until `cloudgan down`"
    )
    return [warning]


def _pool_request(
    run: str,
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    node: NodeType,
    nodes: int,
) -> NodePoolRequest:
    return NodePoolRequest(
        run=run,
        spec_hash="",
        node_type=node.node_type,
        market=node.market,
        nodes=nodes,
        flex_start=provisioning.flex_start,
        reservation=request.reservation,
        keep_cluster=provisioning.keep_cluster,
        keep_seconds=provisioning.keep_nodes_seconds,
        served_runs=max(provisioning.served_runs, 2 if provisioning.keep_nodes_seconds else 1),
        has_own_image=request.image is not None,
        internal_ips=provisioning.internal_ips,
    )


def _gang_timeout(
    request: LaunchRequest, provisioning: ProvisioningRequest, selected: SelectedNodes
) -> float:
    """Time until all workers must run; --market=auto waits less long for spot nodes."""
    seconds = request.effective_gang_timeout_seconds
    if provisioning.market == "auto" and selected.node.market == "spot":
        return min(seconds, provisioning.spot_wait_seconds)
    return seconds
