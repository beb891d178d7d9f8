"""`cloudgan plan --paper`: the paper's own experiments, as they could be run today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json
from cloudgan.cli.table_view import show_table
from cloudgan.cost.catalog import load_catalog
from cloudgan.planning.paper_jobs import EPOCHS, paper_jobs
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from cloudgan.planning.paper_jobs import PaperJob
    from cloudgan.providers.clouds import Clouds

_HEADS = (
    ("experiment", "l"),
    ("ran on", "l"),
    ("sold", "l"),
    ("USD then", "r"),
    ("today", "l"),
    ("hours", "r"),
    ("USD, at least", "r"),
    ("speed", "l"),
)


def show_paper_plans(clouds: Clouds, *, as_json: bool) -> None:
    """Shows each experiment: what it ran on, what became of that, where it would run now."""
    jobs = paper_jobs(load_catalog(), clouds)
    if as_json:
        show_json({"epochs": EPOCHS, "jobs": [job.model_dump(mode="json") for job in jobs]})
        return
    show_table(paper_table(jobs))
    for told in dict.fromkeys(job.told for job in jobs if job.told):
        which = ", ".join(job.experiment for job in jobs if job.told == told)
        print(f"{which}: {told}.")
    print("Each as a whole plan:")
    for job in jobs:
        if job.command:
            print(f"  {job.command}")


def paper_table(jobs: tuple[PaperJob, ...]) -> Table:
    """Returns a row for each experiment."""
    rows = tuple(
        (
            job.experiment,
            job.machines,
            "yes" if job.is_sold else "no",
            job.then_usd,
            f"{job.nodes} x {job.offer}" if job.offer else None,
            job.seconds / 3600 if job.seconds is not None else None,
            job.known_usd,
            job.grade,
        )
        for job in jobs
    )
    return Table(
        tuple(name for name, _ in _HEADS),
        rows,
        f"{EPOCHS} epochs of the paper's network. Then: nodes alone, preemptible, prices of 2020/21."
        " Today: the same or the nearest that everybody can rent; the whole job as far as it is known,"
        " with lost nodes, at the slow edge of its speed, at the best place.",
        "".join(side for _, side in _HEADS),
    )
