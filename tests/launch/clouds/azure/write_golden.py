"""Writes the golden requests of an Azure plan; `make golden` runs it.

They leave out the Kubernetes objects, which are the same on every cloud.
"""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path

import yaml

from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Showers, Target, Workers
from cloudgan.speed.throughput_model import build_throughput_model

GOLDEN = Path(__file__).parent / "golden.yaml"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
OFFERS = {
    "gpu": ("azure/Standard_NC24ads_A100_v4/eastus/on_demand", 1),
    "spot": ("azure/Standard_NC4as_T4_v3/westus2/spot", 1),
    "two-nodes": ("azure/Standard_ND96isr_H100_v5/eastus/spot", 2),
}


def asked_of(name):
    """The request from which a golden plan is built."""
    offer, nodes = OFFERS[name]
    row = load_catalog().row(offer)
    place = requests.target(None, row.region, None, None)
    store = requests.store_url(place)
    config = {"name": name, "data": {"path": f"{store}/data/0a1b"}, "training": {"epochs": 60}}
    asked = PlanRequest(
        config=parse_config(config, "a golden"),
        target=Target(**place.model_dump()),
        workers=Workers(
            nodes=nodes,
            accelerator=row.accelerator,
            accelerators_per_node=row.accelerator_count,
            cpus=6,
            memory_gib=16,
            image="python:3.11-slim",
        ),
        store=store,
        showers=Showers(source=f"{store}/data/0a1b", records=124_987),
        owner="physicist",
        price=row,
    )
    return with_node_pool(asked, NodePoolRequest(name, "", row.node_type, row.market, nodes))


@functools.cache
def plan(name):
    """The plan of a golden, as this code makes it."""
    return make_plan(asked_of(name), build_throughput_model("paper", 124_987, ()), all_steps, NOW)


def render(name):
    """The text of a golden."""
    made = plan(name)
    job = next(step.body for step in made.steps if step.ensure.startswith("Job "))
    template = job["spec"]["template"]
    pod = template["spec"]
    of_pod = ("nodeSelector", "tolerations", "terminationGracePeriodSeconds", "serviceAccountName")
    seen = {
        "node_pool": made.node_pool.model_dump(mode="json", exclude_defaults=True),
        "requests": [
            step.model_dump(mode="json", exclude_none=True)
            for step in made.steps
            if step.at in ("cloud", "store")
        ],
        "pods": {"labels": template["metadata"]["labels"]} | {key: pod[key] for key in of_pod},
    }
    return yaml.safe_dump(seen, sort_keys=False, width=100)


if __name__ == "__main__":
    GOLDEN.write_text(render("spot"), encoding="utf-8")
