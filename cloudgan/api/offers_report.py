"""The result of `offers`: nodes by price and epoch time, the best for a job, and their screen."""

from __future__ import annotations

from pydantic import Field

from cloudgan.api.offer_choice import JobChoice, JobOption
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.document import Document
from cloudgan.core.durations import duration_range
from cloudgan.core.errors import CloudganError, PlanError
from cloudgan.money.carbon import COVERS
from cloudgan.reports.page import Page
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Number, Table, time_cell, usd_cell, usd_range, usd_text
from cloudgan.schema.presets import PROFILES
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.speed.measured import PAPER_NETWORK

MOST_ROWS = 8
OFFERS_CAPTION = "Offers, one node each, by the upper bound of the cost of an epoch."
_HOUR_SECONDS = 3600


class Epoch(Document):
    """Time of an epoch."""

    seconds: float | None = Field(description="None: no measurement")
    low_seconds: float
    high_seconds: float
    grade: str = Field(description="measured or modelled")
    basis: str


class Offer(Document):
    """A node type in a region and market, and an epoch on one such node."""

    offer: str = Field(description="cloud/node/region/market")
    provider: str
    node_type: str
    region: str
    market: str
    accelerator: str
    accelerator_count: int
    usd_per_hour: float = Field(description="of the whole node")
    price_range: str = Field(description="of the spot price; empty: one reading is known")
    batch: float = Field(description="showers per replica and step")
    usd_per_accelerator_hour: float | None = Field(description="None: no accelerator")
    source: str
    date: str
    confidence: str = Field(description="A, B or C, as in the catalog; C: not confirmed")
    age_days: int | None = Field(description="of the price; None: undated")
    is_age_bound: bool = Field(description="whether the price may be younger: its date is a bound")
    epoch: Epoch | None = Field(description="None: unknown, see why_unknown")
    usd_per_epoch: float | None
    usd_per_epoch_low: float | None
    usd_per_epoch_high: float | None
    why_unknown: str
    carbon_g_per_epoch: float | None = Field(
        description="upper bound, accelerators only; None: see why_carbon_unknown"
    )
    why_carbon_unknown: str


class OffersReport(Result):
    """Offers, and the best options for a job."""

    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Offer, ...]
    choice: JobChoice | None
    ranked_by: str = Field(default="usd", description="usd, or carbon: emissions of an epoch")
    shows_all: bool = Field(default=False, description="whether the table has all offers")

    def problem(self) -> CloudganError | None:
        """Returns the error that no option meets the limits of the job."""
        if self.choice is None or self.choice.chosen is not None:
            return None
        return PlanError("no offer meets the limits of this job")

    def view(self) -> View:
        """Returns what to take, and why an apparently cheaper offer is not it."""
        choice = self.choice
        more = "-v shows the evidence, --all every offer, --report=offers.html a plot"
        notes = (*self.notes, more)
        if self.ranked_by == "carbon":
            line = "Emissions of an epoch, the lowest first"
            return View(line=line, table=self.carbon_table(), notes=notes)
        if choice is None:
            best = self.offers[0]
            usd = (
                "unknown" if best.usd_per_epoch_high is None else usd_text(best.usd_per_epoch_high)
            )
            line = f"Cheapest epoch: {best.node_type} on {_where(best.offer)}, at most {usd} USD"
            job = ("cloudgan offers --epochs=60 --max-hours=2", "for a whole job")
            return View(line=line, table=self.table(), notes=notes, commands=(job,))
        if choice.chosen is None:
            nothing, _, rest = choice.why_none.partition(": the fastest")
            nearest = f"the fastest{rest.partition('; the smallest')[0]}" if rest else ""
            change = f"smallest change that fits: {self._changes()}"
            notes = (*filter(None, (nearest, change)), *notes)
            return View(line=nothing, table=self.table(), notes=notes, done=False)
        return View(
            line=decision(choice),
            table=self.table(),
            notes=notes,
            commands=((plan_command(self, choice.chosen), "plans it"),),
            basis=tuple(evidence(choice)),
        )

    def page(self) -> Page:
        """Returns the page of `--report`."""
        from cloudgan.api.offers_page import offers_page  # which draws this report

        return offers_page(self)

    def _changes(self) -> str:
        changes = self.choice.changes if self.choice else ()
        return " or ".join(changes) or "none; see `cloudgan offers` without --epochs"

    def table(self) -> Table:
        """Returns the best options of a job, the chosen one first, else the cheapest offers."""
        choice = self.choice
        if choice is None:
            return self._offers_table(None if self.shows_all else MOST_ROWS)
        options = (self.shows_all and choice.options) or choice.rows
        is_chosen = {one: "chosen" in one.best_for for one in options}
        ranked = sorted(
            options, key=lambda one: (not is_chosen[one], _misses(choice, one) != "", one.usd)
        )
        rows = tuple(
            (
                f"{'✔' if is_chosen[one] else ' '} {_nodes(one.offer, one.nodes)}",
                usd_cell(one.usd),
                time_cell(one.seconds),
                _where(one.offer),
                _remark(choice, one),
            )
            for one in ranked
        )
        return Table(("  nodes", "USD", "time", "where", "remark"), rows, align="lrrll")

    def _offers_table(self, most: int | None) -> Table:
        folded: dict[tuple[object, ...], Offer] = {}
        for one in self.offers:
            key = (one.provider, one.node_type, one.market, one.usd_per_hour)
            folded.setdefault(key, one)
        rows = tuple(
            (
                _node_and_accelerators(one),
                _range(one.usd_per_epoch_low, one.usd_per_epoch_high),
                _epoch_time(one),
                one.usd_per_hour,
                _where(one.offer),
            )
            for one in list(folded.values())[:most]
        )
        heads = ("nodes", "USD/epoch", "time/epoch", "USD/h", "where")
        return Table(heads, rows, align="lrrrl")

    def carbon_table(self) -> Table:
        """Returns the emissions of an epoch on each offer, the lowest first, unknown ones last."""
        ranked = sorted(
            self.offers,
            key=lambda one: (one.carbon_g_per_epoch is None, one.carbon_g_per_epoch or 0.0),
        )
        rows = tuple(
            (
                one.node_type.removeprefix("Standard_"),
                f"{one.accelerator_count} x {one.accelerator}",
                one.carbon_g_per_epoch,
                one.usd_per_epoch_high,
                f"{_where(one.offer)} {one.region}",
            )
            for one in (ranked if self.shows_all else ranked[:MOST_ROWS])
        )
        heads = ("node", "accelerators", "g CO2e/epoch", "USD/epoch", "where")
        return Table(heads, rows, f"Upper bounds. Carbon of {COVERS}.", "llrrl")


def _node_and_accelerators(one: Offer) -> str:
    node_type = one.node_type.removeprefix("Standard_")
    count = "" if one.accelerator_count == 1 else f"{one.accelerator_count} x "
    return node_type if "+" in node_type else f"{node_type}, {count}{one.accelerator}"


def _epoch_time(one: Offer) -> str | None:
    if one.epoch is None:
        return None
    return duration_range(one.epoch.low_seconds, one.epoch.high_seconds, " - ")


def _nodes(offer: str, nodes: int) -> str:
    return f"{nodes} x {offer.split('/')[1].removeprefix('Standard_')}"


def _where(offer: str) -> str:
    """Returns such as ``AWS spot``."""
    provider, *_, market = offer.split("/")
    cloud = CLOUDS[provider].title if provider in CLOUDS else provider
    return f"{cloud} {market.replace('_', ' ')}"


def _misses(choice: JobChoice, one: JobOption) -> str:
    """Returns the limit that an option may exceed, or an empty string."""
    if choice.deadline_seconds is not None and one.seconds > choice.deadline_seconds:
        return f"over {choice.deadline_seconds / _HOUR_SECONDS:g} h"
    if choice.budget_usd is not None and one.usd > choice.budget_usd:
        return f"over {choice.budget_usd:g} USD"
    return ""


def _remark(choice: JobChoice, one: JobOption) -> str:
    """Returns how the time is known, and why the option is not the chosen one."""
    roles = [role for role in one.best_for if role in ("fastest", "safest")]
    why, chosen = _misses(choice, one), choice.chosen
    if not why and chosen is not None and one.usd < chosen.usd:
        why = "slower"  # without a deadline the fastest within the budget is chosen
    return ", ".join((one.grade, *filter(None, (why,)), *roles))


def decision(choice: JobChoice) -> str:
    """Returns the selected option in words."""
    option = choice.chosen
    if option is None:
        return choice.why_none
    hours = (choice.deadline_seconds or 0) / _HOUR_SECONDS
    limits = [f"within {hours:g} h"] if hours else []
    limits += [f"for at most {choice.budget_usd:g} USD"] if choice.budget_usd else []
    which = "Fastest" if choice.budget_usd and not choice.deadline_seconds else "Cheapest"
    return (
        f"{which} for {choice.epochs} epochs{' ' if limits else ''}{' and '.join(limits)}:"
        f" {_nodes(option.offer, option.nodes)} on {_where(option.offer)}"
    )


def plan_command(found: OffersReport, option: JobOption) -> str:
    """Returns the command that plans an option."""
    choice = found.choice
    provider = option.offer.partition("/")[0]
    if provider not in CLOUDS:
        provider = "kubernetes"
    words = [f"cloudgan plan --provider={provider} --price-as={option.offer}"]
    words += [f"--nodes={option.nodes}", f"--global-batch={option.global_batch}"]
    is_default = found.network == PAPER_NETWORK or found.network not in PROFILES
    words += [] if is_default else [f"--preset={found.network}"]
    if choice is not None:
        words += [] if choice.epochs == TrainingConfig().epochs else [f"--epochs={choice.epochs}"]
        if choice.deadline_seconds is not None:
            words.append(f"--max-hours={choice.deadline_seconds / _HOUR_SECONDS:g}")
        if choice.budget_usd is not None:
            words.append(f"--budget-usd={choice.budget_usd:g}")
    return " ".join(words)


def evidence(choice: JobChoice) -> tuple[str, ...]:
    """Returns how time, batch and risk of the chosen option are known."""
    chosen = choice.chosen
    lines: list[str] = []
    if chosen is not None:
        regions = ", ".join(chosen.regions)
        lines += [f"offer: {chosen.offer}, at the same price in {regions}"]
        lines += [f"time: {chosen.grade}, {chosen.basis}", f"batch: {chosen.learning}"]
        if chosen.price_range:
            lines.append(f"price of a node: {chosen.price_range}; USD are those of its last day")
        if chosen.risk:
            lines.append(f"spot: {chosen.risk}")
    return (*lines, assumed(choice))


def assumed(choice: JobChoice) -> str:
    """Returns the rates of preemptions, and what is assumed of them."""
    given = choice.assumed
    found = {one.losses_basis: one.losses_per_node_hour for one in choice.rows if one.losses_basis}
    rates = "; ".join(
        f"{rate:.2g} ({basis})" for basis, rate in sorted(found.items(), reverse=True)
    )
    return (
        f"spot nodes: {f'preemptions per hour and node: {rates}; ' if rates else ''}assumed, not measured:"
        f" {given['restart_seconds']:g} s to restart, {given['checkpoint_seconds']:g} s per checkpoint"
        " (--losses-per-node-hour, --restart-seconds, --checkpoint-seconds)"
    )


def price_age(one: Offer | JobOption) -> str:
    """Returns the age of an offer's price."""
    if one.age_days is None:
        return "undated"
    text = f"{'≤' if one.is_age_bound else ''}{one.age_days} days ago"
    return f"{text}, not confirmed" if isinstance(one, Offer) and one.confidence == "C" else text


def _range(low: float | None, high: float | None) -> Number:
    if low is None or high is None:
        return Number(None, "")
    return Number(high, usd_range(low, high, " - "))
