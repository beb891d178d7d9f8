"""Chooses the nodes of a plan in a cloud: matches offers, ranks them for the job, compares the markets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from cloudgan.core.clouds import of_bucket
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import BudgetError, ConfigError, PlanError
from cloudgan.launch.backends.tpu_vm.requests import ENGINE, check_no_secrets
from cloudgan.launch.clouds.planner import Clouds, NodePoolRequest
from cloudgan.launch.plan.candidates import (
    OfferConstraints,
    Ranking,
    best_of,
    rank,
    selection_of,
    usable_options,
)
from cloudgan.launch.plan.launch_job import batch_rule, usd_of_earlier_attempts
from cloudgan.launch.plan.offers import (
    Node,
    find_offers,
    offers_of_clouds,
    unpriced_choice,
    unpriced_node,
)
from cloudgan.launch.plan.request import AttemptHistory, LaunchRequest
from cloudgan.money.billing import data_move
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, job_cost, load_startup_times
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import JobCost, NodePool, Selection, Showers
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
    """The choice of nodes for a job.

    Attributes:
        config: Configuration of the run, except for what follows from its nodes.
    """

    request: LaunchRequest
    history: AttemptHistory
    config: RunConfig
    showers: Showers
    speeds: ThroughputModel
    clouds: Clouds

    def choose(self) -> ChosenNodes:
        """Returns the best nodes.

        Raises:
            PlanError: No offer matches, or none can be provisioned.
        """
        history, catalog = self.history, load_catalog()
        regions = self.request.regions_in(self.request.provider)
        request = self.request.model_copy(update={"regions": regions})
        try:
            found = find_offers(request, history, catalog, of_bucket(self.showers.source))
        except PlanError:
            if not request.allow_unknown_price or history.first is not None:
                raise
            node, nodes = unpriced_node(request, catalog), request.nodes or 1
            why = unpriced_choice(node, request)
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
            offers = offers_of_clouds(self.request, catalog)
        near = chain.from_iterable(its for name, its in offers.items() if not self._is_far(name))
        rows = dict.fromkeys((*found.rows, *near))
        options = usable_options(rows, self.speeds, constraints, context, self._node_pool)
        ranking = self._rank(options.of(found.rows), constraints)
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
            self._refuse_price_limit()
            return ChosenNodes(best.row, best.nodes, why, batch)
        cost = self._cost(best, pool, context)
        return ChosenNodes(best.row, best.nodes, why, batch, best.row, cost)

    def _rank(self, options: Ranking, constraints: OfferConstraints) -> Ranking:
        """Ranks options, and says in an error if the number of showers is assumed."""
        try:
            return rank(options, constraints)
        except (BudgetError, PlanError) as error:
            if self.showers.are_counted:
                raise
            raise type(error)(
                f"{error}. The paper's {PAPER_SHOWERS:,} showers are assumed, since those of"
                f" {self.showers.source} are not counted here: give --nodes=N, or --data=FILE.h5"
            ) from error

    def _node_pool(self, row: PriceRow, nodes: int) -> NodePool:
        wanted = pool_request(self.request.name or "draft", self.request, row, nodes)
        pool = self.clouds.planner(row.provider).node_pool(wanted)
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

    def _cost(self, best: Candidate, pool: NodePool, context: JobContext) -> JobCost:
        """Cost of the job; its length is unknown if not its number of epochs ends it."""
        seconds = None
        if best.low_seconds is not None and self.config.ends_with_its_epochs:
            seconds = (best.low_seconds, best.seconds)
        return job_cost(
            best.row,
            best.nodes,
            seconds,
            context,
            on_cluster=pool.engine == "cluster",
            fees=pool.fees,
        ).cost

    def _refuse_price_limit(self) -> None:
        request = self.request
        if request.budget_usd is None and request.max_usd_per_hour is None:
            return
        raise ConfigError(
            f"--reservation={request.reservation} was paid in advance, at a price that no API states, so"
            " --budget-usd and --max-usd-per-hour cannot hold: omit them and limit the run by --max-hours"
        )


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
