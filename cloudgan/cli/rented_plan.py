"""From flags to the plan of a run whose nodes are made for it: which offer, and why that one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.cli.launch_asked import asked_of
from cloudgan.cli.launch_config import config_of, speeds_of, spent_before
from cloudgan.cli.launch_showers import look_at
from cloudgan.cli.launch_workers import workers_of
from cloudgan.cli.offer_search import find_offers, wanted_market
from cloudgan.cli.place import RUNS
from cloudgan.cli.rent_flags import within_zone
from cloudgan.cli.unpriced import unpriced_choice, unpriced_node
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import PlanError
from cloudgan.core.plan import Workers
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.choice import Job
from cloudgan.cost.elsewhere_runs import PAPER_BATCH
from cloudgan.cost.fees import load_fees
from cloudgan.cost.startup import load_startups
from cloudgan.planning.choosing import best_way, choice, preferring
from cloudgan.planning.job_cost import Beside, Moving, job_cost
from cloudgan.planning.planning import make_plan
from cloudgan.planning.ranking import Wish, rank, replicas
from cloudgan.planning.renting import all_steps, rented
from cloudgan.providers.clouds import Wanted
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.cli.launch_config import Training
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.past_attempts import Past
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.choice import Choice, JobCost
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Place, Plan, Rental, Showers, Wheel
    from cloudgan.core.price_row import PriceRow
    from cloudgan.planning.node_kind import NodeKind
    from cloudgan.planning.ranking import Way
    from cloudgan.providers.clouds import Clouds

_CLOUD_OF = {"gs": "gcp", "s3": "aws", "https": "azure"}
_LEAST_BATCH = 48
_SPOT_WHY = {"always": "--spot=always", "never": "--spot=never", "auto": ""}


class Chosen(NamedTuple):
    """What is rented, and why.

    Attributes:
        node: Of which kind.
        nodes: How many.
        price: Of one; None: nobody knows it.
        cost: Of the whole job; None likewise.
        choice: Why.
    """

    node: NodeKind
    nodes: int
    price: PriceRow | None
    cost: JobCost | None
    choice: Choice


def rented_plan(
    flags: LaunchFlags,
    rent: RentFlags,
    training: Training,
    wheels: Callable[[str | None], tuple[Wheel, ...]],
    *,
    clouds: Clouds,
    past: Past,
) -> Plan:
    """Returns the plan; see `launch_plan.planned`."""
    draft = config_of("draft", training, Workers(nodes=flags.nodes or 1, cpus=1, memory_gib=1))
    seen = look_at(draft.data.path, "", moves=False)
    search = _Search(flags, rent, clouds, past, draft, seen)
    chosen = search.chosen()
    workers = workers_of(flags, chosen.nodes, chosen.node)
    name = past.first.run if past.first else flags.name
    batch = search.global_batch(chosen)
    config = config_of(name, training, workers, global_batch=batch)
    place = _place(chosen.node, rent, clouds)
    store = flags.store or past.stores.get(place.provider) or _store(place, clouds)
    asked = asked_of(
        flags,
        rent,
        config=config,
        place=place,
        workers=workers,
        store=store,
        wheels=wheels,
        gang_timeout_seconds=_patience(flags, rent, chosen),
        price=chosen.price,
        cost=chosen.cost,
        choice=chosen.choice,
        run_spec=past.first.spec if past.first else None,
    )
    asked = rented(asked, _wanted(config.name, flags, rent, chosen.node, chosen.nodes), clouds)
    known = speeds_of(config, asked.showers)
    plan = make_plan(asked, known, lambda plan: all_steps(plan, clouds), utc_moment())
    more = (*_batch_warnings(plan, chosen), *_market_warnings(plan, rent))
    return plan.model_copy(update={"warnings": (*plan.warnings, *more)})


@dataclass(frozen=True)
class _Search:
    """Finds what to rent for what was asked.

    Attributes:
        config: What is trained, but for the number of workers.
        showers: On what.
    """

    flags: LaunchFlags
    rent: RentFlags
    clouds: Clouds
    past: Past
    config: RunConfig
    showers: Showers

    def chosen(self) -> Chosen:
        """Returns the best of the offers.

        Raises:
            ConfigError: The zone is in another region than was asked.
            PlanError: None can be taken.
        """
        flags, past, catalog = self.flags, self.past, load_catalog()
        rent = within_zone(self.rent, flags.provider)
        try:
            found = find_offers(flags, rent, past, catalog, self._data_cloud())
        except PlanError:
            if not rent.allow_unknown_price or past.first is not None:
                raise
            node = unpriced_node(flags, rent, catalog)
            return Chosen(node, flags.nodes or 1, None, None, unpriced_choice(node, rent))
        known = speeds_of(self.config, self.showers)
        wish, beside = self._wish(found.named), self._beside()
        ranking = rank(found.rows, known, wish, beside, self._rental)
        ranking = preferring(ranking, past.offer)
        best = best_way(ranking, found.asked)
        why = _SPOT_WHY[rent.spot] or ("--flex_start" if rent.flex_start else "")
        told = choice(ranking, found.asked, self.config.training.epochs, why)
        return Chosen(best.row, best.nodes, best.row, self._cost(best, beside), told)

    def global_batch(self, chosen: Chosen) -> int | None:
        """Returns the showers per step that must stay the same; None: nothing changes the number."""
        first = self.past.first
        if first is not None:
            return first.config.training.global_batch_size
        if self.flags.nodes is None:
            return self.config.global_batch(1)
        if self.rent.fallback != "any":
            return None
        return self.config.global_batch(replicas(chosen.node, chosen.nodes))

    def _wish(self, named: frozenset[str]) -> Wish:
        flags, first = self.flags, self.past.first
        nodes = flags.nodes
        if first is not None:
            nodes = None if self.rent.fallback == "any" else first.workers.nodes
        batch = first.config.training.global_batch_size if first else None
        if nodes is None and batch is None:
            batch = self.config.global_batch(1)
        spent = spent_before(RunFolder(RUNS / (first.run if first else flags.name or "draft")))
        return Wish(
            job=Job(self.config.training.epochs),
            nodes=nodes,
            global_batch=batch,
            most_seconds=flags.max_hours * 3600,
            most_usd=None if flags.budget_usd is None else flags.budget_usd - spent,
            most_usd_per_hour=self.rent.max_usd_per_hour,
            named=named,
            unmeasured=self.rent.allow_unmeasured,
            by_break_even=wanted_market(self.rent) is None,
            excluded=self.past.excluded,
        )

    def _beside(self) -> Beside:
        provider = self._data_cloud()
        return Beside(
            fees=load_fees(),
            startups=load_startups(),
            moving=Moving(self.showers.gib, provider, None),
            gang_timeout_seconds=self.flags.gang_timeout_seconds,
        )

    def _rental(self, row: PriceRow, nodes: int) -> Rental:
        wanted = _wanted(self.flags.name or "draft", self.flags, self.rent, row, nodes)
        return self.clouds.rules(row.provider).rental(wanted)

    def _cost(self, way: Way, beside: Beside) -> JobCost:
        """Of the job, whose length nobody knows if something else than its epochs ends it."""
        if self.config.training.ends_with_its_epochs:
            return way.priced.cost
        on_cluster = way.rental.engine == "cluster"
        return job_cost(way.row, way.nodes, None, beside, on_cluster=on_cluster).cost

    def _data_cloud(self) -> str | None:
        return _CLOUD_OF.get(self.showers.source.partition("://")[0])


def _batch_warnings(plan: Plan, chosen: Chosen) -> list[str]:
    """What the paper measured is no measure of small batches: 16 for each took 1.6 times as long."""
    count = replicas(chosen.node, chosen.nodes)
    each = plan.config.global_batch(count) // count
    if plan.forecast.epoch_seconds is None or each >= _LEAST_BATCH:
        return []
    told = (
        f"each of {count} replicas gets {each} showers per step, and the speeds were measured with"
        f" {PAPER_BATCH}: it may be a good deal slower; --global_batch={PAPER_BATCH * count} would be"
        " as measured"
    )
    return [told]


def _market_warnings(plan: Plan, rent: RentFlags) -> list[str]:
    """What --spot=auto may come to cost."""
    row = plan.price
    if row is None or row.market != "spot" or wanted_market(rent) is not None:
        return []
    there = load_catalog().find(
        provider=row.provider, node_type=row.node_type, region=row.region, market="on_demand"
    )
    if not there:
        return []
    rate = there[0].usd_per_hour * plan.workers.nodes
    wait = plan.limits.gang_timeout_seconds / 60
    told = (
        f"spot nodes that are not there within {wait:.3g} min, or are lost too often, are replaced by"
        f" nodes on demand for {rate:.2f} USD per hour; --spot=always keeps to spot"
    )
    return [told]


def _place(node: NodeKind, rent: RentFlags, clouds: Clouds) -> Place:
    made = clouds.rules(node.provider).place(rent.account, node.region, rent.zone, rent.cluster)
    return made.model_copy(update={"profile": rent.profile})


def _store(place: Place, clouds: Clouds) -> str:
    return clouds.rules(place.provider).store(place)


def _wanted(run: str, flags: LaunchFlags, rent: RentFlags, node: NodeKind, nodes: int) -> Wanted:
    return Wanted(
        run=run,
        spec="",
        node_type=node.node_type,
        market=node.market,
        nodes=nodes,
        flex_start=rent.flex_start,
        keep_cluster=rent.keep_cluster,
        has_own_image=flags.image is not None,
    )


def _patience(flags: LaunchFlags, rent: RentFlags, chosen: Chosen) -> float:
    """How long nodes are waited for: spot nodes only until those on demand are taken."""
    if rent.spot == "auto" and chosen.node.market == "spot":
        return min(flags.gang_timeout_seconds, rent.spot_wait_seconds)
    return flags.gang_timeout_seconds
