"""Billing exports of all clouds: formats, categories, credits and invalid files."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import random
import tracemalloc

import pytest

from cloudgan.core.errors import DataError
from cloudgan.cost.billing.reader import read_bill

RUN = "gan"


def google(cost, sku, service="Compute Engine", *, run=RUN, currency="USD", credit=None, end="14"):
    labels = [{"key": "goog-k8s-cluster-name", "value": "cloudgan"}]
    labels += [{"key": "cloudgan-run", "value": run}] if run else []
    return {
        "service": {"id": "6F81-5844-456A", "description": service},
        "sku": {"id": "1", "description": sku},
        "usage_start_time": "2026-11-21 13:00:00 UTC",
        "usage_end_time": f"2026-11-21 {end}:00:00 UTC",
        "labels": labels,
        "system_labels": [],
        "cost": cost,
        "currency": currency,
        "credits": [{"name": "SUD", "amount": credit, "type": "DISCOUNT"}] if credit else [],
    }


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


def test_google_s_export_in_json_lines(json_lines):
    path = json_lines(
        google(1.5, "Nvidia Tesla V100 GPU attached to Spot Preemptible VMs", credit=-0.2),
        google(0.5, "Spot Preemptible N1 Predefined Instance Core running in Americas"),
        google("0.25", "Storage PD Capacity"),
        google(0.1, "Network Internet Data Transfer Out from Americas to EMEA"),
        google(0.1, "Regional Kubernetes Clusters", "Kubernetes Engine"),
        google(9.0, "Nvidia Tesla V100 GPU", run="other", end="19"),
        google(8.0, "Nvidia Tesla V100 GPU", run=None),
        google(2.0, "Standard Storage US", "Cloud Storage"),
        google(3.0, "Predictions", "Vertex AI"),
    )
    found = read_bill([path], RUN)
    assert usd(found) == {
        "compute": 2.0,
        "disk": 0.25,
        "network": 0.1,
        "control plane": 0.1,
        "storage": 2.0,
        "other": 3.0,
    }
    assert sum(found.credits) == -0.2
    assert (found.lines, found.total_lines) == (7, 9)
    assert (found.until.hour, found.last_of_run.hour) == (19, 14), (
        "other lines show the period of the export"
    )
    assert found.formats == ["Google Cloud detailed usage"]


def test_labels_of_pods_are_ours_too(json_lines):
    row = google(1.0, "GPU", run=None)
    row["labels"] = [{"key": "k8s-label/cloudgan-run", "value": RUN}]
    assert read_bill([json_lines(row)], RUN).lines == 1


def test_google_s_export_as_a_query_writes_it_in_csv(table):
    row = {
        "service_description": "Compute Engine",
        "sku_description": "Spot GPU",
        "usage_end_time": "2026-11-21T14:00:00Z",
        "labels": json.dumps([{"key": "cloudgan-run", "value": RUN}]),
        "cost": "1.25",
        "currency": "USD",
        "credits": json.dumps([{"name": "x", "amount": -0.25}]),
    }
    found = read_bill([table(row)], RUN)
    assert (usd(found), sum(found.credits)) == ({"compute": 1.25}, -0.25)


LEGACY = {
    "identity/LineItemId": "a",
    "lineItem/LineItemType": "Usage",
    "lineItem/UsageEndDate": "2026-11-21T14:00:00Z",
    "lineItem/ProductCode": "AmazonEC2",
    "lineItem/UsageType": "USW2-SpotUsage:p3.2xlarge",
    "lineItem/CurrencyCode": "USD",
    "lineItem/UnblendedCost": "1.5",
    "resourceTags/user:cloudgan-run": RUN,
}
CUR2 = {
    "line_item_line_item_type": "Usage",
    "line_item_usage_end_date": "2026-11-21 14:00:00.000",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "USW2-SpotUsage:p3.2xlarge",
    "line_item_currency_code": "USD",
    "line_item_unblended_cost": "1.5",
    "resource_tags": json.dumps({"user_cloudgan_run": RUN, "user_name": "x"}),
}


def test_aws_legacy_report_packed(table):
    rows = [
        LEGACY,
        LEGACY | {"lineItem/UsageType": "EBS:VolumeUsage.gp3", "lineItem/UnblendedCost": "0.2"},
        LEGACY | {"lineItem/UsageType": "DataTransfer-Out-Bytes", "lineItem/UnblendedCost": "0.1"},
        LEGACY
        | {
            "lineItem/ProductCode": "AmazonEKS",
            "lineItem/UsageType": "USW2-AmazonEKS-Hours:perCluster",
        },
        LEGACY | {"lineItem/LineItemType": "Credit", "lineItem/UnblendedCost": "-0.7"},
        LEGACY | {"lineItem/LineItemType": "EdpDiscount", "lineItem/UnblendedCost": "-0.1"},
        LEGACY | {"resourceTags/user:cloudgan-run": "other"},
        LEGACY | {"resourceTags/user:cloudgan-run": ""},
    ]
    found = read_bill([table(*rows, name="cur.csv.gz", packed=True)], RUN)
    expected = {"compute": 1.5, "disk": 0.2, "network": 0.1, "control plane": 1.5}
    assert {part: amount for part, amount in usd(found).items() if amount} == expected
    assert sum(found.credits) == pytest.approx(-0.8)
    assert (found.lines, found.total_lines) == (6, 8)


@pytest.mark.parametrize("key", ["user_cloudgan_run", "user_cloudgan-run", "user:cloudgan-run"])
def test_aws_second_report_has_its_tags_in_one_cell(table, key):
    row = CUR2 | {"resource_tags": json.dumps({key: RUN})}
    assert usd(read_bill([table(row, CUR2 | {"resource_tags": ""})], RUN)) == {"compute": 1.5}


EA = {
    "Date": "11/21/2026",
    "MeterCategory": "Virtual Machines",
    "MeterSubCategory": "NCSv3 Series",
    "MeterName": "NC6s v3 Spot",
    "CostInBillingCurrency": "1.5",
    "BillingCurrency": "USD",
    "ChargeType": "Usage",
    "Tags": f'"cloudgan-run": "{RUN}","cloudgan-owner": "marie"',
}
MCA = {name[:1].lower() + name[1:]: cell for name, cell in EA.items()} | {
    "tags": json.dumps({"cloudgan-run": RUN}),
    "date": "2026-11-21",
}


@pytest.mark.parametrize("row", [EA, MCA], ids=["EA", "MCA"])
def test_azure_in_both_spellings(table, row):
    names = {name.lower(): name for name in row}
    disk = {
        names["metercategory"]: "Storage",
        names["metersubcategory"]: "Premium SSD Managed Disks",
    }
    rows = [
        row,
        row | disk | {names["costinbillingcurrency"]: "0.3"},
        row | {names["metercategory"]: "Bandwidth", names["costinbillingcurrency"]: "0.1"},
        row | {names["metercategory"]: "Azure Kubernetes Service"},
        row | {names["chargetype"]: "Refund", names["costinbillingcurrency"]: "-0.5"},
        row | {names["tags"]: ""},
    ]
    found = read_bill([table(*rows, mark=True)], RUN)
    expected = {"compute": 1.5, "disk": 0.3, "network": 0.1, "control plane": 1.5}
    assert usd(found) == expected
    assert sum(found.credits) == -0.5
    assert found.until.isoformat() == "2026-11-22T00:00:00+00:00", "dates have no time of day"


def test_azure_older_columns(table):
    row = {"UsageDateTime": "2026-11-21", "MeterCategory": "Virtual Machines", "PreTaxCost": "2"}
    row |= {"Currency": "USD", "Tags": json.dumps({"cloudgan-run": RUN})}
    assert usd(read_bill([table(row)], RUN)) == {"compute": 2.0}


def test_focus_of_any_cloud(table):
    row = {
        "BilledCost": "1.5",
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargePeriodEnd": "2026-11-21T14:00:00Z",
        "ServiceCategory": "Compute",
        "ServiceName": "Compute Engine",
        "Tags": json.dumps({"cloudgan-run": RUN}),
    }
    rows = [
        row,
        row | {"ServiceName": "Amazon Elastic Kubernetes Service", "BilledCost": "0.1"},
        row | {"ServiceCategory": "Networking", "BilledCost": "0.2"},
        row | {"ChargeCategory": "Credit", "BilledCost": "-1"},
    ]
    found = read_bill([table(*rows)], RUN)
    assert usd(found) == {"compute": 1.5, "control plane": 0.1, "network": 0.2}
    assert found.credits == [0, 0, 0, -1]


def test_another_currency_is_shown_as_it_is_and_not_added(json_lines):
    path = json_lines(
        google(1.0, "GPU"), google(5.0, "GPU", currency="CHF", credit=-1.0), google(2.0, "GPU")
    )
    found = read_bill([path], RUN)
    assert usd(found) == {"compute": 3.0}
    assert {name: sum(amounts) for name, amounts in found.others.items()} == {"CHF": 4.0}


def test_files_add_up_and_duplicates_count_once(json_lines, table):
    one, two = json_lines(google(1.0, "GPU")), table(LEGACY)
    found = read_bill([one, two, one], RUN)
    assert usd(found) == {"compute": 2.5}
    assert found.formats == ["Google Cloud detailed usage", "AWS Cost and Usage Report"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"contains no line; expected the columns"),
        ("a,b\n1,2\n", r":1: unknown billing export with the columns a, b.*FOCUS: BilledCost"),
        ('[{"cost": 1}]\n', r":1: a JSON list; expected one object a line"),
        ('{"cost": 1}\n', r":1: unknown billing export"),
        ("lineItem/UnblendedCost,x\n1,2\n3\n", r":3: has 1 cells, expected the 2 columns"),
        ("lineItem/UnblendedCost,x\n1,2\nmuch,2\n", r":3: .*lineitem/unblendedcost is 'much'"),
        ('BilledCost,BillingCurrency,ChargeCategory,Tags\n1,USD,Usage,"{a"\n', r":2: .*FOCUS"),
        ('lineItem/UnblendedCost,x\n1,"2\n', r"not CSV"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_line(tmp_path, content, message):
    path = tmp_path / "bill"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_bill([path], RUN)


def test_a_json_line_that_is_cut_is_named(json_lines):
    path = json_lines(google(1.0, "GPU"))
    path.write_text(path.read_text() + '{"cost": 1')
    with pytest.raises(DataError, match=r"export.json:2: not JSON"):
        read_bill([path], RUN)


def test_corrupt_files_and_parquet_are_reported(tmp_path):
    path = tmp_path / "bill.gz"
    lines = "".join(f"1,{random.random()}\n" for _ in range(2000))
    path.write_bytes(gzip.compress(f"lineItem/UnblendedCost,x\n{lines}".encode())[:-2000])
    with pytest.raises(DataError, match="cannot be read"):
        read_bill([path], RUN)
    path.write_bytes(b"\x1f\x8b\x08\x00" + b"x" * 40)
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
        file.write(",".join(LEGACY) + "\n")
        line = ",".join((LEGACY | {"resourceTags/user:cloudgan-run": "other"}).values()) + "\n"
        for _ in range(200):
            file.write(line * 100)
    tracemalloc.start()
    found = read_bill([path], RUN)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.lines, found.total_lines) == (0, 20_000)
    assert peak < path.stat().st_size / 4
