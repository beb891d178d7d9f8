"""The paper's own experiments, to be run today: on the same machines, or on the nearest ones sold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.choice import Count, Seconds, Usd
from cloudgan.core.price_row import Text
from cloudgan.cost.choice import Job
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_runs import (
    PAPER_BATCH,
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
)
from cloudgan.cost.fees import load_fees
from cloudgan.cost.paper import headline_runs, paper_runs
from cloudgan.cost.replay import replay
from cloudgan.cost.startup import load_startups
from cloudgan.planning.choosing import passed_over
from cloudgan.planning.job_cost import Beside
from cloudgan.planning.ranking import Wish, rank
from cloudgan.planning.retired import GKE_TPU_NODES, retired
from cloudgan.providers.clouds import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.plan import Rental
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.catalog import Catalog
    from cloudgan.cost.elsewhere import Speeds
    from cloudgan.cost.paper import PaperRun
    from cloudgan.cost.replay import ReplayedRun
    from cloudgan.planning.ranking import Way
    from cloudgan.providers.clouds import Clouds

EPOCHS = 60
_TPU_BATCH = 128
_OF_AZURE = ("Standard_NC24rs_v3", "Standard_NC24s_v3")
"""Azure ML, December 2020 to February 2021, with and without InfiniBand; 4 V100 in each node."""


class PaperJob(BaseModel):
    """An experiment of the paper, then and now; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: Text
    machines: Text = Field(description="that it ran on")
    is_sold: bool
    told: str = Field(description="what became of them")
    then_usd: Usd | None = Field(description="60 epochs, preemptible, prices of 2020/21")
    offer: Text | None = Field(description="the same, or the nearest that is sold")
    nodes: Count | None
    seconds: Seconds | None = Field(description="of the training, at the slow edge")
    grade: str | None = Field(default=None, description="how its speed is known")
    known_usd: Usd | None = Field(description="of the whole job, as far as it is known")
    unknown: tuple[Text, ...] = ()
    command: str = Field(description="that makes the plan of it; empty where there is none")


def paper_jobs(catalog: Catalog, clouds: Clouds) -> tuple[PaperJob, ...]:
    """Returns the paper's experiments, 2 to 128 V100, TPUs and those on Azure, as jobs of today."""
    known = speeds(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
    finder = _Finder(catalog, clouds, known, Beside(load_fees(), load_startups()))
    fastest = headline_runs(run for run in paper_runs() if run.batch_per_replica in _BATCHES)
    then = {run.name: run for run in replay(catalog).runs}
    ordered = sorted(fastest, key=lambda run: (run.accelerator != "V100", run.accelerator))
    return (
        *(_job_on_google(run, then.get(run.name), finder) for run in ordered),
        *(_job_on_azure(node_type, finder) for node_type in _OF_AZURE),
    )


_BATCHES = (PAPER_BATCH, _TPU_BATCH)


class _Finder(NamedTuple):
    """Finds the best place of a kind of node."""

    catalog: Catalog
    clouds: Clouds
    known: Speeds
    beside: Beside

    def best(self, rows: Iterable[PriceRow], nodes: int) -> tuple[Way | None, str]:
        """Returns the best way, or why there is none."""

        def rental(row: PriceRow, count: int) -> Rental:
            wanted = Wanted("paper", "", row.node_type, row.market, count)
            return self.clouds.rules(row.provider).rental(wanted)

        rows = tuple(rows)
        wish = Wish(Job(EPOCHS), nodes, named=frozenset(row.accelerator for row in rows))
        found = rank(rows, self.known, wish, self.beside, rental)
        if found.ways:
            return found.ways[0], ""
        groups = passed_over(found.refused)
        return None, groups[0].why if groups else "it has no price"


def _job_on_google(run: PaperRun, then: ReplayedRun | None, finder: _Finder) -> PaperJob:
    is_tpu = run.accelerator.startswith("TPU")
    way, why = finder.best(finder.catalog.find(provider="gcp", node_type=run.node_type), run.nodes)
    told = [GKE_TPU_NODES] if is_tpu else []
    if way is None:
        told.append(f"the same is not to be had: {why}")
        same = [row for row in finder.catalog.find() if row.accelerator == run.accelerator]
        way, _ = finder.best(same, 1)
    elif way.rental.instead:
        old = f"{way.row.offer} for at least {way.priced.cost.known_usd:.2f} USD"
        told.append(f"{run.node_type} goes only to accounts with a quota of old, as {old}")
        why = "sold to few"
        rows = finder.catalog.find(provider="gcp", node_type=way.rental.instead)
        way, _ = finder.best(rows, 1)
    return PaperJob(
        experiment=f"{run.accelerators} {run.accelerator}"
        + (f" ({run.node_type})" if is_tpu else ""),
        machines=f"{run.nodes} x {run.node_type}, Google Cloud, {run.date}",
        is_sold=not why,
        told="; ".join(told),
        then_usd=then.usd_per_60_epochs["preemptible_2021"] if then else None,
        **_now(way, run.batch_per_replica * run.replicas),
    )


def _job_on_azure(node_type: str, finder: _Finder) -> PaperJob:
    gone = retired("azure", node_type)
    count = 4
    rows = [
        row for row in finder.catalog.find(accelerator="V100") if row.accelerator_count == count
    ]
    way, why = finder.best([row for row in rows if row.accelerator == "V100"], 1)
    link = "with InfiniBand" if "rs" in node_type else "without InfiniBand"
    return PaperJob(
        experiment=f"{count} V100, {link}",
        machines=f"1 x {node_type}, Azure, 2020-12 to 2021-02",
        is_sold=gone is None,
        told=gone.sentence if gone else why,
        then_usd=None,
        **_now(way, PAPER_BATCH * count),
    )


def _now(way: Way | None, global_batch: int) -> dict[str, object]:
    if way is None:
        return {"offer": None, "nodes": None, "seconds": None, "known_usd": None, "command": ""}
    row = way.row
    nodes = f" --nodes={way.nodes}" if way.nodes > 1 else ""
    return {
        "offer": row.offer,
        "nodes": way.nodes,
        "seconds": way.candidate.seconds if way.candidate else None,
        "grade": way.candidate.epoch.grade if way.candidate else None,
        "known_usd": way.priced.cost.known_usd,
        "unknown": way.priced.cost.unknown,
        "command": f"cloudgan plan --provider={row.provider} --accelerator={row.node_type}{nodes}"
        f" --global_batch={global_batch}",
    }
