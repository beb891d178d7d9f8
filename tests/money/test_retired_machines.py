"""Machines that a cloud no longer sells are in one table, in no price list, and never an answer."""

import datetime as dt
import json

import pytest

from cloudgan.core import machines
from cloudgan.money.catalog import load_catalog, shipped_catalog, write_refreshed

DISCONTINUED = [one for one in machines.table().values() if one.retired]

GONE = {(one.provider, one.node_type) for one in DISCONTINUED}


@pytest.mark.parametrize("one", DISCONTINUED, ids=lambda one: one.node_type)
def test_each_has_a_date_a_source_and_a_replacement_on_sale(one):
    assert dt.date(2020, 1, 1) < dt.date.fromisoformat(one.retired) < dt.date(2026, 11, 25)
    assert one.source.startswith("https://")
    name, _, count = one.replacement.partition(":")
    rows = load_catalog().find(provider=one.provider, accelerator=name)
    assert int(count) in {row.accelerator_count for row in rows if row.accelerator == name}
    assert not {(one.provider, row.node_type) for row in rows} & GONE
    assert one.node_type not in machines.sold(one.provider)


def test_the_papers_machines_of_azure_have_one_date_each():
    assert machines.retired("azure", "Standard_NC24rs_v3").retired == "2025-03-31"
    assert machines.retired("azure", "Standard_NC24s_v3").retired == "2025-09-30"


def test_no_price_is_of_a_discontinued_machine_not_even_a_refreshed_one(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    sold = shipped_catalog().row("aws/g5.xlarge/us-east-1/spot")
    old = sold.model_copy(update={"node_type": "p3.2xlarge", "accelerator": "V100"})
    write_refreshed(tmp_path / "prices", "aws", [sold, old])
    rows = load_catalog().rows
    assert not {(row.provider, row.node_type) for row in rows} & GONE
    assert sold in rows


def said_of(one, cloudgan_here, *flags):
    said = " ".join(cloudgan_here("plan", *flags, exits=5).stderr.split())
    assert f"since {one.retired} no region has it" in said
    assert said.endswith(f"Use --accelerator={one.replacement}")
    assert "--region" not in said


ONE_OF_EACH = {one.provider: one for one in DISCONTINUED}


@pytest.mark.parametrize("one", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_who_asks_for_one_reads_since_when_no_region_has_it_and_what_to_use(one, cloudgan_here):
    said_of(one, cloudgan_here, f"--provider={one.provider}", f"--accelerator={one.node_type}")


@pytest.mark.parametrize(
    "flags",
    [
        ("--provider=cheapest", "--accelerator=NAME"),
        ("--provider=azure", "--accelerator=TYPE", "--allow-unknown-price", "--region=eastus"),
        ("--price-as=azure/TYPE/eastus/spot", "--provider=cheapest"),
    ],
)
def test_in_whatever_way_it_is_named(flags, cloudgan_here):
    one = next(one for one in DISCONTINUED if one.provider == "azure")
    names = {"NAME": one.node_type.lower(), "TYPE": one.node_type}
    for word, name in names.items():
        flags = [flag.replace(word, name) for flag in flags]
    said_of(one, cloudgan_here, *flags)


@pytest.mark.parametrize("verb", ["plan", "offers"])
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--provider=aws", "--accelerator=v100"), "--accelerator=A10G:1"),
        (("--provider=azure", "--accelerator=p100"), "--accelerator=T4:1"),
    ],
)
def test_an_accelerator_of_which_a_cloud_has_none_left_says_the_same(
    verb, flags, expected, cloudgan_here
):
    said = " ".join(cloudgan_here(verb, *flags, exits=5).stderr.split())
    assert "no region has it" in said
    assert said.endswith(expected)


def test_a_count_finds_the_machine_with_that_count(cloudgan_here):
    said = cloudgan_here("plan", "--provider=aws", "--accelerator=v100:8", exits=5).stderr
    assert "discontinued p3.16xlarge (8 x V100)" in said


@pytest.mark.parametrize(
    ("provider", "nodes"),
    [("gcp", ()), ("aws", ()), ("azure", ()), ("cheapest", ()), ("cheapest", ("--nodes=auto",))],
    ids=str,
)
def test_without_flags_plan_answers_with_a_machine_on_sale(provider, nodes, cloudgan_here):
    plan = json.loads(cloudgan_here("plan", f"--provider={provider}", *nodes, "--json").stdout)
    chosen = [plan["price"], *(one["row"] for one in plan["selection"]["alternatives"])]
    assert len(chosen) > 1
    assert not {(one["provider"], one["node_type"]) for one in chosen} & GONE
    assert plan["forecast"]["high_seconds"] <= 24 * 3600, "it ends within --max-hours"
    assert provider in ("cheapest", plan["price"]["provider"])
    assert plan["price"]["accelerator"] != "V100", "others compute more for the money"


@pytest.mark.parametrize("job", [(), ("--epochs=60", "--max-hours=10")], ids=["epoch", "job"])
@pytest.mark.parametrize("provider", [(), ("gcp",), ("aws",), ("azure",)], ids=str)
def test_without_flags_offers_answers_with_machines_on_sale(provider, job, cloudgan_here):
    flags = [f"--provider={name}" for name in provider]
    found = json.loads(cloudgan_here("offers", *flags, *job, "--json").stdout)
    choice = found["choice"] or {"chosen": None, "rows": []}
    answers = [one["row"] for one in (*found["offers"], *choice["rows"])]
    assert (choice["chosen"] is not None) == bool(job)
    assert answers
    assert not {(one["provider"], one["node_type"]) for one in answers} & GONE
