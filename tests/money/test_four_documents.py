"""Plan, status, report and the cloud's bill of one launch that lost its nodes twice are one sum, to the cent.

The bill is written here, from prices by the hour and the month and from the cloud's rules, not by the
ledger.
"""

import csv
import json
import math

import pytest

from cloudgan.money.bill import read_bill, reconcile
from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, job_cost
from cloudgan.money.report import cost_report
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from tests.money import conftest
from tests.money.conftest import TODAY, after, cluster_of, launch_of, short_run

HOUR, MONTH_HOURS = 3600, 730
ATTEMPTS = ((0, 2 * HOUR), (2 * HOUR, 5 * HOUR), (5 * HOUR, 10 * HOUR))
"""Start and end of the nodes; the second and the third attempt begin when the cloud took the nodes before."""
NODES = 2
CLOUDS = {
    "gcp": (("GKE standard", 0.1), ("e2-medium", 0.033506), ("pd-balanced", 100, 0.1)),
    "aws": (("EKS standard support", 0.1), None, ("EBS gp3", 100, 0.08)),
    "azure": (
        ("AKS standard (uptime SLA)", 0.1),
        ("Standard_D2_v2", 0.146),
        ("Premium SSD P10", 128, 0.153984),
    ),
}
"""Control plane, system node and their USD per hour, and the disk of a node: its GiB and USD per GiB and month."""
ADDRESS_USD = 0.005
COLUMNS = (
    *("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd"),
    *("ServiceCategory", "ChargeDescription", "Tags"),
)


def fees_of(cloud):
    product, gib, _ = cloud[2]
    return PoolFee(kind="disk", product=product, quantity=gib), PoolFee(kind="public_ip")


def rows_of(provider, market):
    where = ("us-central1", "us-east-1", "eastus")
    accelerator = "A10G" if provider == "aws" else "T4"
    return next(
        row
        for row in load_catalog().find(provider=provider, market=market, accelerator=accelerator)
        if row.region in where
    )


def attempt(row, cloud, since, until, *, names_cluster):
    """One attempt; the launcher records the cluster when it removes the nodes, from its creation on."""
    plane, system, _ = cloud
    cluster = cluster_of(until, control_plane=plane[0], system_nodes=0)
    if system:
        cluster = cluster_of(until, control_plane=plane[0], system_node=system[0], system_nodes=1)
    return conftest.attempt(
        *[(since, until)] * NODES,
        row=row,
        node_count=NODES,
        fees=(CONTROL_PLANE, *((SYSTEM_NODE,) if system else ()), *fees_of(cloud)),
        data=DataMove(),
        cluster=cluster if names_cluster else None,
        program_started_at=after(since),
        program_ended_at=after(until),
        end_reason="preempted" if until < ATTEMPTS[-1][1] else "finished",
        stored_gib_months=0,
        egress_gib=0,
    )


def charges(row, cloud):
    """What the cloud bills: service, category, USD, and whether the line has the label of the run."""
    plane, system, (_, gib, usd_per_month) = cloud
    for since, until in ATTEMPTS:
        hours = (until - since) / HOUR
        for _ in range(NODES):
            yield "Compute", row.usd_per_hour * hours, True
            yield "Networking", ADDRESS_USD * hours, True
            yield "Storage", gib * usd_per_month / MONTH_HOURS * hours, True
    for shared in (plane, system):
        if shared:
            yield "Compute", shared[1] * ATTEMPTS[-1][1] / HOUR, False


def written_bill(path, lines):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for category, usd, is_labelled in lines:
            tags = json.dumps({"cloudgan-run": "gan"} if is_labelled else {})
            what = "a disk" if category == "Storage" else "a node"
            until = "2026-11-22T12:00:00Z"
            writer.writerow((usd, "USD", "Usage", until, category, what, tags))
    return path


@pytest.mark.parametrize("recorded", ["by each attempt", "by the last attempt"])
@pytest.mark.parametrize("market", ["spot", "on_demand"])
@pytest.mark.parametrize("provider", CLOUDS)
def test_the_four_documents_of_a_launch_that_was_preempted_twice_are_one_sum(
    provider, market, recorded, tmp_path
):
    row, cloud, fees = rows_of(provider, market), CLOUDS[provider], load_fees()
    seconds = ATTEMPTS[-1][1]
    planned = job_cost(
        row, NODES, (seconds, seconds), JobContext(fees, ()), fees=fees_of(cloud)
    ).cost
    every = recorded == "by each attempt"
    whole = launch_of(
        *(
            attempt(row, cloud, *times, names_cluster=every or times is ATTEMPTS[-1])
            for times in ATTEMPTS
        )
    )
    status = launch_ledger(whole).until(after(seconds + HOUR)).known_usd
    report = cost_report("gan", short_run(), TODAY, launch=whole, fees=fees)
    lines = tuple(charges(row, cloud))
    billed = math.fsum(usd for _, usd, _ in lines)
    documents = (planned.known_usd, status, report.totals.known_usd, billed)
    assert {round(usd, 2) for usd in documents} == {round(billed, 2)}, documents
    has_price = fees.find("storage_gib_month", provider, row.region)
    assert report.totals.unknown == (() if has_price else ("storage",)), "named, and not zero"

    path = written_bill(tmp_path / "bill.csv", lines)
    bill = reconcile(read_bill([path], "gan"), [path], report, whole)
    of = {part.name: part for part in bill.categories}
    assert bill.is_complete
    for name in ("compute", "disk", "network"):
        assert of[name].billed_usd == pytest.approx(of[name].measured_usd, abs=0.005)
        assert of[name].explanation == ""
    shared = math.fsum(usd for _, usd, is_labelled in lines if not is_labelled)
    assert of["control plane"].measured_usd == pytest.approx(shared, abs=0.005)
    assert "shared by all runs" in of["control plane"].explanation
