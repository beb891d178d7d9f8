"""A bill in FOCUS: categories, credits, labels, invalid files, and reasons of differences to the measured cost."""

import csv
import datetime as dt
import gzip
import importlib.util
import io
import json
import random
import tracemalloc

import pytest

from cloudgan.core.errors import DataError
from cloudgan.money.bill import read_bill, reconcile
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.report import cost_report
from cloudgan.schema.launch import Node
from cloudgan.schema.record import PreemptionNotice, RunRecord
from tests.money.conftest import (
    NOON,
    ROW,
    TODAY,
    after,
    attempt,
    cluster_of,
    launch_of,
    short_run,
)

RUN, HOUR = "gan", 3600


def charge(cost=1.5, category="Compute", *, tags=(("cloudgan-run", RUN),), **more):
    """A row of an export; `more` replaces columns."""
    return {
        "BilledCost": cost,
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargePeriodEnd": "2026-11-21T14:00:00Z",
        "ServiceCategory": category,
        "ServiceName": "Compute Engine",
        "Tags": json.dumps(dict(tags)),
    } | more


@pytest.fixture
def json_lines(tmp_path):
    def write(*rows, name="export.json"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def table(tmp_path):
    def write(*rows, name="export.csv", packed=False, mark=False):
        text = io.StringIO()
        columns = list(dict.fromkeys(column for row in rows for column in row))
        writer = csv.DictWriter(text, columns, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
        content = (b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if packed else content)
        return path

    return write


def usd(found):
    return {part: found.usd(part) for part in found.amounts}


CHARGES = (
    charge(),
    charge(0.5),
    charge("0.25", "Storage", ResourceType="Disk"),
    charge(2.0, "Storage", ServiceName="Cloud Storage"),
    charge(0.2, "Networking", ServiceName="Networking"),
    charge(0.1, ServiceName="Amazon Elastic Kubernetes Service"),
    charge(3.0, "AI and Machine Learning", ServiceName="Vertex AI"),
    charge(-1, ChargeCategory="Credit"),
    charge(-0.5, ChargeCategory="Adjustment"),
    charge(9.0, tags={"cloudgan-run": "other"}, ChargePeriodEnd="2026-11-21T19:00:00Z"),
    charge(8.0, tags={}),
)


@pytest.mark.parametrize("form", ["JSON lines", "CSV", "CSV with a byte order mark", "CSV packed"])
def test_charges_are_summed_by_category_and_credits_apart(json_lines, table, form):
    path = (
        json_lines(*CHARGES)
        if form == "JSON lines"
        else table(*CHARGES, mark="mark" in form, packed="packed" in form)
    )
    found = read_bill([path], RUN)
    assert {part: amount for part, amount in usd(found).items() if amount} == {
        "compute": 2.0,
        "disk": 0.25,
        "storage": 2.0,
        "network": 0.2,
        "control plane": 0.1,
        "other": 3.0,
    }
    assert sum(found.credits) == -1.5
    assert (found.lines, found.total_lines) == (9, 11)
    assert found.until.hour == 19, "other lines extend the period"


@pytest.mark.parametrize(
    "tags",
    [
        json.dumps({"cloudgan-run": RUN, "cloudgan-owner": "marie"}),
        f'"cloudgan-run": "{RUN}","cloudgan-owner": "marie"',
        json.dumps({"user_cloudgan_run": RUN}),
        json.dumps({"user:cloudgan-run": RUN}),
        json.dumps([{"key": "cloudgan-run", "value": RUN}]),
        json.dumps([{"key": "k8s-label/cloudgan-run", "value": RUN}]),
    ],
)
def test_the_label_is_found_in_each_spelling_of_tags(table, tags):
    assert read_bill([table(charge(Tags=tags), charge(Tags=""))], RUN).lines == 1


def test_another_currency_is_shown_as_it_is_and_not_added(json_lines):
    francs = (charge(4.0, BillingCurrency="CHF"), charge(0.5, BillingCurrency="chf"))
    path = json_lines(charge(1.0), *francs, charge(2.0, BillingCurrency="usd"))
    found = read_bill([path], RUN)
    assert usd(found) == {"compute": 3.0}
    assert {name: sum(amounts) for name, amounts in found.others.items()} == {"CHF": 4.5}


def test_files_add_up_and_duplicates_count_once(json_lines, table):
    one, two = json_lines(charge(1.0)), table(charge(1.5))
    assert usd(read_bill([one, two, one], RUN)) == {"compute": 2.5}


HEAD = "BilledCost,BillingCurrency,ChargeCategory"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"contains no line; expected the columns of FOCUS 1.x: BilledCost"),
        ("a,b\n1,2\n", r":2: has no BilledCost among the columns a, b.*Export the bill in FOCUS"),
        ('[{"cost": 1}]\n', r":1: a JSON list; expected one object a line"),
        ('{"cost": 1}\n', r":1: has no BilledCost"),
        (f'{json.dumps(charge())}\n{{"cost": 1', r":2: not JSON"),
        (f"{HEAD}\n1,USD,Usage\n3\n", r":3: has 1 cells, expected the 3 columns"),
        (f"{HEAD}\n1,USD,Usage\nmuch,USD,Usage\n", r":3: .*billedcost is 'much'"),
        (f'{HEAD},Tags\n1,USD,Usage,"{{a"\n', r":2: .*FOCUS"),
        (f"{HEAD},ChargePeriodEnd\n1,USD,Usage,soon\n", r":2: .*'soon' is not a time"),
        (f'{HEAD}\n1,"2\n', r"not CSV"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_line(tmp_path, content, message):
    path = tmp_path / "bill"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_bill([path], RUN)


def test_corrupt_files_are_reported(tmp_path):
    path = tmp_path / "bill.gz"
    lines = "".join(f"1,USD,{random.random()}\n" for _ in range(2000))
    packed = gzip.compress(f"{HEAD}\n{lines}".encode())
    for content in (packed[:-2000], b"\x1f\x8b\x08\x00" + b"x" * 40):
        path.write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            read_bill([path], RUN)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is here")
def test_parquet_names_the_required_package(tmp_path):
    path = tmp_path / "bill.parquet"
    path.write_bytes(b"PAR1....PAR1")
    with pytest.raises(DataError, match="pip install pyarrow"):
        read_bill([path], RUN)


@pytest.mark.slow
def test_a_large_file_is_never_in_memory(tmp_path):
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write(f"{HEAD},ChargePeriodEnd\n")
        line = "1.5,USD,Usage,2026-11-21T14:00:00Z\n"
        for _ in range(200):
            file.write(line * 100)
    tracemalloc.start()
    found = read_bill([path], RUN)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.lines, found.total_lines) == (0, 20_000)
    assert peak < path.stat().st_size / 4


# The measured cost beside it.


def launched(**more):
    """The launch of one node for an hour; `more` changes the times of the node."""
    times = {"started_at": NOON, "last_seen_at": after(HOUR), "terminated_at": after(HOUR)}
    nodes = (Node(name="a", **times | more),)
    shared = {"cluster": cluster_of(HOUR), "fees": (), "end_reason": "finished"}
    return launch_of(attempt(nodes=nodes, **shared))


@pytest.fixture
def bill_of(json_lines):
    def bill_of(*charges, launch=None, until=7200, noticed=(), zone=dt.UTC):
        launch = launch or launched()
        record = RunRecord(lines=(*short_run().lines, *noticed))
        report = cost_report(RUN, record, TODAY, launch=launch, fees=load_fees())
        end = {"ChargePeriodEnd": after(until).astimezone(zone).isoformat()}
        path = json_lines(*(one | end for one in (*charges, charge(99, tags={}))))
        return reconcile(read_bill([path], RUN), [path], report, launch)

    return bill_of


def whys(bill):
    return {part.name: part.explanation for part in bill.categories}


PAID = ROW.usd_per_hour


def test_what_agrees_needs_no_reason(bill_of):
    bill = bill_of(charge(PAID), charge(-0.4, ChargeCategory="Credit"))
    compute = bill.categories[0]
    assert compute.billed_usd == pytest.approx(compute.measured_usd)
    assert compute.explanation == ""
    assert (bill.billed_usd, bill.credits_usd) == (pytest.approx(PAID), -0.4)
    assert bill.is_complete
    assert bill.files == ("export.json",)
    assert (bill.lines, bill.total_lines) == (2, 3)


def test_an_incomplete_export_is_reported(bill_of):
    tokyo = dt.timezone(dt.timedelta(hours=9))
    bill = bill_of(charge(1.0), until=1800, zone=tokyo)
    assert bill.is_complete is False
    assert whys(bill)["compute"] == "the export is incomplete"
    assert (
        "the export ends at 2026-11-21 12:30 UTC, the nodes were up until 2026-11-21 13:00 UTC:"
        " export again a day later"
    ) in bill.notes


def test_a_bill_for_nodes_that_should_be_free_is_explained(bill_of):
    """AWS took the only node in its first hour, and its bill has it all the same."""
    spot = load_catalog().row("aws/g5.xlarge/us-east-1/spot")
    notice = PreemptionNotice(
        time=after(580).isoformat(), step=10, worker=0, cloud="aws", seconds=120
    )
    launch = launch_of(attempt((0, 600), row=spot, end_reason="preempted"))
    bill = bill_of(charge(0.05), launch=launch, noticed=(notice,))
    assert whys(bill)["compute"] == (
        "by the times of the nodes and the cloud's billing rule they cost nothing"
    )


def test_an_export_without_lines_of_the_run_explains_what_to_do(bill_of):
    (note,) = bill_of().notes
    assert "label cloudgan-run=gan" in note
    assert "activated" in note


DISK = charge(0.3, "Storage", ResourceType="Disk")


@pytest.mark.parametrize(
    ("charges", "seen", "part", "said"),
    [
        ([charge(PAID)], HOUR, "control plane", "shared by all runs"),
        ([charge(PAID), DISK], HOUR, "disk", "not measured by cloudgan"),
        ([charge(PAID / 2)], 600, "compute", "not observed"),
        ([charge(PAID / 2)], HOUR, "compute", "50% below the measured cost at prices of"),
        ([charge(PAID * 2)], HOUR, "compute", "100% above the measured cost"),
        ([charge(1.0)], None, "compute", "unknown to cloudgan: nodes of attempt 1"),
    ],
)
def test_a_difference_has_its_reason(bill_of, charges, seen, part, said):
    """Nodes that are still up are seen until no time; whether the bill is complete is then unknown."""
    times = {"last_seen_at": after(seen)} if seen else {"terminated_at": None}
    bill = bill_of(*charges, launch=launched(**times))
    assert said in whys(bill)[part]
    assert bill.is_complete is (True if seen else None)
