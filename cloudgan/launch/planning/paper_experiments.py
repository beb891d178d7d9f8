"""The paper's experiments as jobs of today: on the same node types or the nearest that are sold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.cost.estimation.candidates import BatchRule, PricedJob
from cloudgan.cost.estimation.measured_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
)
from cloudgan.cost.estimation.step_time import PAPER_BATCH
from cloudgan.cost.estimation.throughput_model import build_throughput_model
from cloudgan.cost.paper.replay import replay
from cloudgan.cost.paper.runs import headline_runs, paper_runs
from cloudgan.cost.prices.discontinued import discontinued
from cloudgan.cost.prices.fees import load_fees
from cloudgan.cost.prices.startup import load_startup_times
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.planning.job_cost import JobContext
from cloudgan.launch.planning.node_types import GKE_TPU_NODES
from cloudgan.launch.planning.ranking import OfferConstraints, group_rejected, rank
from cloudgan.schema.plan import Count, Seconds, Usd
from cloudgan.schema.price_row import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.cost.estimation.throughput_model import ThroughputModel
    from cloudgan.cost.paper.replay import ReplayedRun
    from cloudgan.cost.paper.runs import PaperRun
    from cloudgan.cost.prices.catalog import Catalog
    from cloudgan.launch.clouds.planner import Clouds
    from cloudgan.launch.planning.ranking import RankedOption
    from cloudgan.schema.plan import NodePool
    from cloudgan.schema.price_row import PriceRow

EPOCHS = 60
_TPU_BATCH = 128
_OF_AZURE = ("Standard_NC24rs_v3", "Standard_NC24s_v3")
"""Azure ML, 2020-12 to 2021-02, with and without InfiniBand; 4 V100 per node."""


class PaperJob(BaseModel):
    """An experiment of the paper, then and today; None: unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: Text
    machines: Text = Field(description="of the paper")
    is_sold: bool
    note: str = Field(description="discontinuation and restrictions")
    paper_usd: Usd | None = Field(description="60 epochs, preemptible, prices of 2020/21")
    offer: Text | None = Field(description="the same or the nearest sold")
    nodes: Count | None
    seconds: Seconds | None = Field(description="of the training, upper estimate")
    grade: str | None = Field(default=None, description="evidence of the throughput")
    known_usd: Usd | None = Field(description="known cost of the whole job")
    unknown: tuple[Text, ...] = ()
    command: str = Field(description="that plans it; empty: none")


def paper_jobs(catalog: Catalog, clouds: Clouds) -> tuple[PaperJob, ...]:
    """Returns the paper's experiments, 2 to 128 V100, TPUs and those on Azure, as jobs of today."""
    known = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
    finder = _Finder(catalog, clouds, known, JobContext(load_fees(), load_startup_times()))
    fastest = headline_runs(run for run in paper_runs() if run.batch_per_replica in _BATCHES)
    then = {run.name: run for run in replay(catalog).runs}
    ordered = sorted(fastest, key=lambda run: (run.accelerator != "V100", run.accelerator))
    return (
        *(_job_on_google(run, then.get(run.name), finder) for run in ordered),
        *(_job_on_azure(node_type, finder) for node_type in _OF_AZURE),
    )


_BATCHES = (PAPER_BATCH, _TPU_BATCH)


class _Finder(NamedTuple):
    """Finds the best offer of a node type."""

    catalog: Catalog
    clouds: Clouds
    known: ThroughputModel
    beside: JobContext

    def best(
        self, rows: Iterable[PriceRow], nodes: int, global_batch: int
    ) -> tuple[RankedOption | None, str]:
        """Returns the best option, or the reason why there is none."""

        def node_pool(row: PriceRow, count: int) -> NodePool:
            wanted = NodePoolRequest("paper", "", row.node_type, row.market, count)
            return self.clouds.planner(row.provider).node_pool(wanted)

        rows = tuple(rows)
        constraints = OfferConstraints(
            PricedJob(EPOCHS, batches=BatchRule(global_batch=global_batch)),
            nodes,
            allowed_accelerators=frozenset(row.accelerator for row in rows),
        )
        found = rank(rows, self.known, constraints, self.beside, node_pool)
        if found.options:
            return found.options[0], ""
        groups = group_rejected(found.rejected)
        return None, groups[0].reason if groups else "it has no price"


def _job_on_google(run: PaperRun, then: ReplayedRun | None, finder: _Finder) -> PaperJob:
    is_tpu = run.accelerator.startswith("TPU")
    batch = run.batch_per_replica * run.replicas
    rows = finder.catalog.find(provider="gcp", node_type=run.node_type)
    option, why = finder.best(rows, run.nodes, batch)
    notes = [GKE_TPU_NODES] if is_tpu else []
    if option is None:
        notes.append(f"not available: {why}")
        same = [row for row in finder.catalog.find() if row.accelerator == run.accelerator]
        option, _ = finder.best(same, 1, batch)
    elif option.node_pool.replacement:
        old = f"{option.row.offer} for at least {option.priced.cost.known_usd:.2f} USD"
        notes.append(f"{run.node_type} is sold only to accounts with an existing quota, as {old}")
        why = "sold to few"
        rows = finder.catalog.find(provider="gcp", node_type=option.node_pool.replacement)
        option, _ = finder.best(rows, 1, batch)
    return PaperJob(
        experiment=f"{run.accelerators} {run.accelerator}"
        + (f" ({run.node_type})" if is_tpu else ""),
        machines=f"{run.nodes} x {run.node_type}, Google Cloud, {run.date}",
        is_sold=not why,
        note="; ".join(notes),
        paper_usd=then.usd_per_60_epochs["preemptible_2021"] if then else None,
        **_now(option, batch),
    )


def _job_on_azure(node_type: str, finder: _Finder) -> PaperJob:
    gone = discontinued("azure", node_type)
    count = 4
    rows = [
        row for row in finder.catalog.find(accelerator="V100") if row.accelerator_count == count
    ]
    option, why = finder.best(
        [row for row in rows if row.accelerator == "V100"], 1, PAPER_BATCH * count
    )
    link = "with InfiniBand" if "rs" in node_type else "without InfiniBand"
    return PaperJob(
        experiment=f"{count} V100, {link}",
        machines=f"1 x {node_type}, Azure, 2020-12 to 2021-02",
        is_sold=gone is None,
        note=gone.message if gone else why,
        paper_usd=None,
        **_now(option, PAPER_BATCH * count),
    )


def _now(option: RankedOption | None, global_batch: int) -> dict[str, object]:
    if option is None:
        return {"offer": None, "nodes": None, "seconds": None, "known_usd": None, "command": ""}
    row = option.row
    nodes = f" --nodes={option.nodes}" if option.nodes > 1 else ""
    return {
        "offer": row.offer,
        "nodes": option.nodes,
        "seconds": option.candidate.seconds if option.candidate else None,
        "grade": option.candidate.epoch.grade if option.candidate else None,
        "known_usd": option.priced.cost.known_usd,
        "unknown": option.priced.cost.unknown,
        "command": f"cloudgan plan --provider={row.provider} --accelerator={row.node_type}{nodes}"
        f" --global-batch={global_batch}",
    }
