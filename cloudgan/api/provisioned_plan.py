"""Plans a run on provisioned nodes: searches offers, ranks them, and builds the plan of the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.api.launch_data import find_data
from cloudgan.api.launch_request import CHEAPEST
from cloudgan.api.plan_inputs import (
    on_demand_price,
    plan_request,
    request_workers,
    run_config,
    throughput_model,
    usd_of_earlier_attempts,
)
from cloudgan.api.targets import RUNS
from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import CLOUDS, choices, of_bucket
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.cost.estimation.candidates import PricedJob
from cloudgan.cost.estimation.throughput_model import PAPER_BATCH
from cloudgan.cost.prices.catalog import is_of, load_catalog
from cloudgan.cost.prices.fees import load_fees
from cloudgan.cost.prices.startup import load_startup_times
from cloudgan.launch.backends.tpu_vm.slices import unsupported_reason
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.planning.job_cost import DataMove, JobContext, job_cost
from cloudgan.launch.planning.node_types import UnpricedNode
from cloudgan.launch.planning.plan_builder import all_steps, make_plan, with_node_pool
from cloudgan.launch.planning.ranking import (
    OfferConstraints,
    best_option,
    prefer_offer,
    rank,
    replicas,
    selection_of,
)
from cloudgan.schema.plan import Selection, Workers
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.api.launch_request import AttemptHistory, LaunchRequest, ProvisioningRequest
    from cloudgan.api.plan_inputs import Training
    from cloudgan.cost.prices.catalog import Catalog
    from cloudgan.launch.clouds.planner import Clouds
    from cloudgan.launch.planning.node_types import NodeType
    from cloudgan.launch.planning.ranking import RankedOption
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.plan import JobCost, NodePool, Plan, Showers, Wheel
    from cloudgan.schema.price_row import PriceRow

_SMALL_BATCH = 48
_MARKET_WHY = {"spot": "--market=spot", "on_demand": "--market=on_demand", "auto": ""}


class MatchingOffers(NamedTuple):
    """Offers that match a request.

    Attributes:
        rows: Their prices, in both markets if the request leaves the market open.
        description: The request in words.
        named: Accelerators that the request names; they need no measured throughput.
    """

    rows: tuple[PriceRow, ...]
    description: str
    named: frozenset[str]


class SelectedNodes(NamedTuple):
    """The nodes of a plan.

    Attributes:
        node: Node type.
        nodes: Number of nodes.
        price: Price of one node; None: unknown.
        cost: Cost of the whole job; None: unknown.
        selection: Why these nodes were selected.
    """

    node: NodeType
    nodes: int
    price: PriceRow | None
    cost: JobCost | None
    selection: Selection


def provisioned_plan(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    training: Training,
    wheels: Callable[[str | None], tuple[Wheel, ...]],
    *,
    clouds: Clouds,
    history: AttemptHistory,
) -> Plan:
    """Returns the plan of a run on provisioned nodes; see `planning.make_launch_plan`."""
    draft = run_config("draft", training, Workers(nodes=request.nodes or 1, cpus=1, memory_gib=1))
    showers = find_data(draft.data.path, "", moves=False)
    search = _OfferSearch(request, provisioning, clouds, history, draft, showers)
    selected = search.select()
    workers = request_workers(request, selected.nodes, selected.node)
    name = history.first.run if history.first else request.name
    config = run_config(name, training, workers, global_batch=search.global_batch(selected))
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
    warnings = (*_batch_warnings(plan, selected), *_market_warnings(plan, provisioning))
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
            return SelectedNodes(node, request.nodes or 1, None, None, why)
        speeds = throughput_model(self.config, self.showers)
        constraints, context = self._constraints(found.named), self._job_context()
        ranking = rank(found.rows, speeds, constraints, context, self._node_pool)
        ranking = prefer_offer(ranking, history.offer)
        best = best_option(ranking, found.description)
        market_why = _MARKET_WHY[provisioning.market] or (
            "--flex-start" if provisioning.flex_start else ""
        )
        why = selection_of(ranking, found.description, self.config.training.epochs, market_why)
        return SelectedNodes(best.row, best.nodes, best.row, self._cost(best, context), why)

    def global_batch(self, selected: SelectedNodes) -> int | None:
        """Returns the global batch that later attempts must keep; None: as requested."""
        first = self.history.first
        if first is not None:
            return first.config.training.global_batch_size
        if self.request.nodes is None:
            return self.config.global_batch(1)
        if self.provisioning.fallback != "any":
            return None
        return self.config.global_batch(replicas(selected.node, selected.nodes))

    def _constraints(self, named: frozenset[str]) -> OfferConstraints:
        request, first = self.request, self.history.first
        nodes = request.nodes
        if first is not None:
            nodes = None if self.provisioning.fallback == "any" else first.workers.nodes
        batch = first.config.training.global_batch_size if first else None
        if nodes is None and batch is None:
            batch = self.config.global_batch(1)
        run = first.run if first else request.name or "draft"
        spent = usd_of_earlier_attempts(RunFolder(RUNS / run))
        return OfferConstraints(
            job=PricedJob(self.config.training.epochs),
            nodes=nodes,
            global_batch=batch,
            max_seconds=request.max_hours * 3600,
            max_usd=None if request.budget_usd is None else request.budget_usd - spent,
            max_usd_per_hour=self.provisioning.max_usd_per_hour,
            allowed_accelerators=named,
            allow_unmeasured=self.provisioning.allow_unmeasured,
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
        return self.clouds.planner(row.provider).node_pool(wanted)

    def _cost(self, option: RankedOption, context: JobContext) -> JobCost:
        """Cost of the job; its length is unknown if not its number of epochs ends it."""
        if self.config.training.ends_with_its_epochs:
            return option.priced.cost
        pool = option.node_pool
        on_cluster = pool.engine == "cluster"
        return job_cost(
            option.row, option.nodes, None, context, on_cluster=on_cluster, fees=pool.fees
        ).cost

    def _data_cloud(self) -> str | None:
        return of_bucket(self.showers.source)


def find_offers(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    history: AttemptHistory,
    catalog: Catalog,
    data_cloud: str | None,
) -> MatchingOffers:
    """Returns the offers that match a request.

    Args:
        request: The launch request.
        provisioning: The provisioning request.
        history: Earlier attempts.
        catalog: The price catalog.
        data_cloud: Cloud that has the data; None: this machine.

    Raises:
        ConfigError: A name is unknown.
        PlanError: No price matches.
    """
    first = history.first
    if request.offer and first is None:
        row = catalog.row(request.offer)
        _check_offer(row, request)
        return MatchingOffers((row,), row.offer, frozenset({row.accelerator}))
    if first is not None and provisioning.fallback != "any":
        return _same_accelerators(first, request, provisioning, catalog, data_cloud)
    description = _describe(request, provisioning)
    rows = _of_accelerator(request, provisioning, catalog) if first is None else catalog.find()
    rows = tuple(row for row in rows if _matches(row, request, provisioning, data_cloud))
    if not rows:
        name = request.accelerator_name or "NAME"
        raise PlanError(
            f"no price is known for {description}. `cloudgan offers --accelerator={name}` lists"
            " known prices, `cloudgan prices refresh` fetches current ones, and"
            " --allow-unknown-price with a node type (--accelerator=TYPE) and one --region"
            " provisions it without a price"
        )
    named = _named_accelerators(rows, request) if first is None else frozenset()
    return MatchingOffers(rows, description, named)


def _named_accelerators(rows: tuple[PriceRow, ...], request: LaunchRequest) -> frozenset[str]:
    """The accelerator that --accelerator names, else all of its family or node type."""
    if request.accelerator_name is None:
        return frozenset()
    found = frozenset(row.accelerator for row in rows)
    name = request.accelerator_name.casefold()
    return frozenset(each for each in found if each.casefold() == name) or found


def _check_offer(row: PriceRow, request: LaunchRequest) -> None:
    """Refuses --price-as if --provider or --accelerator contradict it."""
    if request.provider not in (CHEAPEST, row.provider):
        raise ConfigError(
            f"--price-as={row.offer} is in {row.provider}, and --provider={request.provider} was"
            " given; they must agree"
        )
    name, count = request.accelerator_name, request.accelerator_count
    if name is None or name.casefold() == row.node_type.casefold():
        return
    if not is_of(row, name) or (request.has_accelerator_count and count != row.accelerator_count):
        raise ConfigError(
            f"--price-as={row.offer} has {row.accelerator_count} x {row.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )


def _same_accelerators(
    first: Plan,
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    catalog: Catalog,
    data_cloud: str | None,
) -> MatchingOffers:
    """Offers with the first attempt's accelerators; without fallback only its node type and region."""
    price = first.price
    if price is None:
        raise PlanError("cannot fall back: the node type of the first attempt has no price")
    rows = [
        row
        for row in catalog.find()
        if (row.accelerator, row.accelerator_count) == (price.accelerator, price.accelerator_count)
        and _matches(row, request, provisioning, data_cloud)
    ]
    if provisioning.fallback == "none":
        location = (price.provider, price.node_type, price.region)
        rows = [row for row in rows if (row.provider, row.node_type, row.region) == location]
    description = f"{price.accelerator}:{price.accelerator_count}"
    if not rows:
        raise PlanError(f"no other offer with {description} matches the request")
    return MatchingOffers(tuple(rows), description, frozenset({price.accelerator}))


def _of_accelerator(
    request: LaunchRequest, provisioning: ProvisioningRequest, catalog: Catalog
) -> tuple[PriceRow, ...]:
    name, count = request.accelerator_name, request.accelerator_count
    if name is None:
        return tuple(row for row in catalog.find() if row.accelerator_count > 0)
    if why := unsupported_reason(name):
        raise PlanError(why)
    of_type = [row for row in catalog.find() if row.node_type.casefold() == name.casefold()]
    if of_type:
        if request.has_accelerator_count and of_type[0].accelerator_count != count:
            raise ConfigError(
                f"--accelerator={name}:{count}: a {of_type[0].node_type} has"
                f" {of_type[0].accelerator_count} x {of_type[0].accelerator}; omit the count"
            )
        return tuple(of_type)
    try:
        rows = catalog.find(accelerator=name)
    except UnknownNameError as error:
        if provisioning.allow_unknown_price:
            return ()
        raise ConfigError(
            f"{error} A node type, such as v3-8 or p3.2xlarge, is valid too"
        ) from error
    if request.has_accelerator_count:
        return tuple(row for row in rows if row.accelerator_count == count)
    return rows if request.nodes is None else _smallest(rows)


def _smallest(rows: tuple[PriceRow, ...]) -> tuple[PriceRow, ...]:
    """Nodes with the fewest accelerators that each cloud sells: the default without a count."""
    least: dict[str, int] = {}
    for row in rows:
        count = row.accelerator_count
        least[row.provider] = min(least.get(row.provider, count), count)
    return tuple(row for row in rows if row.accelerator_count == least[row.provider])


def _matches(
    row: PriceRow,
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    data_cloud: str | None,
) -> bool:
    provider = data_cloud if request.provider == CHEAPEST and data_cloud else request.provider
    return (
        provider in (CHEAPEST, row.provider)
        and row.provider in CLOUDS
        and (not provisioning.regions or row.region in provisioning.regions)
        and provisioning.fixed_market in (None, row.market)
    )


def _describe(request: LaunchRequest, provisioning: ProvisioningRequest) -> str:
    cloud = "any cloud" if request.provider == CHEAPEST else request.provider
    market = {"spot": " spot", "on_demand": " on demand"}.get(provisioning.market, "")
    regions = f" in {' or '.join(provisioning.regions)}" if provisioning.regions else ""
    return f"{request.accelerator or 'any measured accelerator'} on {cloud}{market}{regions}"


def unpriced_node(
    request: LaunchRequest, provisioning: ProvisioningRequest, catalog: Catalog
) -> UnpricedNode:
    """Returns the requested node type, with the resources it has in other regions.

    Raises:
        ConfigError: The request does not name one type, cloud and region, or has a price limit.
    """
    name = request.accelerator_name
    if request.provider == CHEAPEST or name is None or len(provisioning.regions) != 1:
        raise ConfigError(
            "--allow-unknown-price provisions one node type in one region of one cloud: give"
            f" --provider={choices()}, --accelerator=TYPE and --region"
        )
    if request.budget_usd is not None or provisioning.max_usd_per_hour is not None:
        raise ConfigError(
            "--budget-usd and --max-usd-per-hour need a price, and this node type has none: omit"
            " them and limit the run by --max-hours"
        )
    accelerators = {known.casefold() for known in catalog.accelerators()}
    if name.casefold() in accelerators or any(
        a.startswith(f"{name.casefold()}-") for a in accelerators
    ):
        raise ConfigError(
            f"--accelerator={name} is an accelerator; with --allow-unknown-price give a node type,"
            " such as a2-highgpu-1g or p3.2xlarge"
        )
    market = provisioning.fixed_market or "on_demand"
    region = provisioning.regions[0]
    for row in catalog.find(provider=request.provider):
        if row.node_type.casefold() == name.casefold():
            kind = (row.accelerator, row.accelerator_count, row.vcpu, row.memory_gib)
            return UnpricedNode(row.provider, row.node_type, *kind, region, market)
    return UnpricedNode(request.provider, name, name, 1, None, None, region, market)


def unpriced_choice(node: UnpricedNode, provisioning: ProvisioningRequest) -> Selection:
    """Returns the reason for a node type without a price."""
    return Selection(
        reason=f"--allow-unknown-price: the price of {node.node_type} in {node.region} is unknown",
        market_reason="as requested"
        if provisioning.fixed_market
        else "on demand: without a price the benefit of spot is unknown",
    )


def _batch_warnings(plan: Plan, selected: SelectedNodes) -> list[str]:
    """Warns of a small batch: measured speeds do not hold; 16 per replica took 1.6 times as long."""
    count = replicas(selected.node, selected.nodes)
    batch = plan.config.global_batch(count) // count
    if plan.forecast.epoch_seconds is None or batch >= _SMALL_BATCH:
        return []
    warning = (
        f"each of {count} replicas gets {batch} showers per step, and throughput was measured with"
        f" {PAPER_BATCH}: the run may be much slower; --global-batch={PAPER_BATCH * count} gives the"
        " measured batch"
    )
    return [warning]


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
        keep_cluster=provisioning.keep_cluster,
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
