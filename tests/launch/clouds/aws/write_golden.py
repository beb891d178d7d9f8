"""Writes the golden requests of an AWS plan; `make golden` runs it.

They leave out the Kubernetes objects, which are the same on every cloud.
"""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path

import yaml

from cloudgan.launch.clouds.aws import planner
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Showers, Workers
from cloudgan.speed.throughput_model import build_throughput_model

FOLDER = Path(__file__).parent / "golden"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
OFFERS = {
    "gpu": ("aws/p4d.24xlarge/us-east-1/on_demand", 1),
    "spot": ("aws/g4dn.xlarge/us-west-2/spot", 1),
    "two-nodes": ("aws/p5.48xlarge/us-east-1/spot", 2),
}


@functools.cache
def plan(name):
    """A plan as this code makes it."""
    offer, nodes = OFFERS[name]
    row = load_catalog().row(offer)
    place = planner.target(None, row.region, None, None)
    store = planner.store_url(place)
    config = {"name": name, "data": {"path": f"{store}/data/0a1b"}, "training": {"epochs": 60}}
    asked = PlanRequest(
        config=parse_config(config, "a golden"),
        target=place,
        workers=Workers(
            nodes=nodes,
            accelerator=row.accelerator,
            accelerators_per_node=row.accelerator_count,
            cpus=3,
            memory_gib=12,
            image="python:3.11-slim",
        ),
        store=store,
        showers=Showers(source=f"{store}/data/0a1b", records=124_987),
        owner="physicist",
        price=row,
    )
    wanted = NodePoolRequest(name, "", row.node_type, row.market, nodes)
    return make_plan(
        with_node_pool(asked, wanted), build_throughput_model("paper", 124_987, ()), all_steps, NOW
    )


def render(name):
    """The text of a golden."""
    made = plan(name)
    job = next(step.body for step in made.steps if step.ensure.startswith("Job "))
    template = job["spec"]["template"]
    pod = template["spec"]
    of_pod = ("nodeSelector", "tolerations", "terminationGracePeriodSeconds", "serviceAccountName")
    seen = {
        "target": made.target.model_dump(mode="json", exclude_none=True),
        "node_pool": made.node_pool.model_dump(mode="json"),
        "requests": [
            step.model_dump(mode="json", exclude_none=True)
            for step in made.steps
            if step.at in ("cloud", "store")
        ],
        "pods": {key: pod[key] for key in of_pod},
    }
    return yaml.safe_dump(seen, sort_keys=False, width=100)


if __name__ == "__main__":
    (FOLDER / "spot.yaml").write_text(render("spot"), encoding="utf-8")
