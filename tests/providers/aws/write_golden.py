"""The goldens: what is asked of AWS for a few plans, for people to read in a diff.

Without the cluster's own objects, which are the same on every cloud; write them anew with
`python -m providers.aws.write_golden` in tests/.
"""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path

import yaml

from cloudgan.core.config import parse_config
from cloudgan.core.plan import Showers, Workers
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.elsewhere import speeds
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.planning.renting import all_steps, rented
from cloudgan.providers.aws import requests
from cloudgan.providers.clouds import Wanted

FOLDER = Path(__file__).parent / "golden"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
OFFERS = {
    "gpu": ("aws/p3.16xlarge/us-east-1/on_demand", 1),
    "spot": ("aws/g4dn.xlarge/us-west-2/spot", 1),
    "two-nodes": ("aws/p5.48xlarge/us-east-1/spot", 2),
}


@functools.cache
def plan(name):
    """The plan of a golden, as this code makes it."""
    offer, nodes = OFFERS[name]
    row = load_catalog().row(offer)
    place = requests.place(None, row.region, None, None)
    store = requests.store(place)
    config = {"name": name, "data": {"path": f"{store}/data/0a1b"}, "training": {"epochs": 60}}
    asked = Asked(
        config=parse_config(config, "a golden"),
        place=place,
        workers=Workers(
            nodes=nodes,
            accelerator=row.accelerator,
            accelerators_per_node=row.accelerator_count,
            cpus=3,
            memory_gib=12,
            image="tensorflow/tensorflow:2.21.0-gpu",
        ),
        store=store,
        showers=Showers(source=f"{store}/data/0a1b", records=124_987),
        owner="physicist",
        price=row,
    )
    wanted = Wanted(name, "", row.node_type, row.market, nodes)
    return make_plan(rented(asked, wanted), speeds("paper", 124_987, ()), all_steps, NOW)


def render(name):
    """The text of a golden."""
    made = plan(name)
    template = made.steps[-1].body["spec"]["template"]
    pod = template["spec"]
    of_pod = ("nodeSelector", "tolerations", "terminationGracePeriodSeconds", "serviceAccountName")
    seen = {
        "place": made.place.model_dump(mode="json", exclude_none=True),
        "rental": made.rental.model_dump(mode="json"),
        "requests": [
            step.model_dump(mode="json", exclude_none=True)
            for step in made.steps
            if step.at in ("cloud", "store")
        ],
        "pods": {key: pod[key] for key in of_pod},
    }
    return yaml.safe_dump(seen, sort_keys=False, width=100)


if __name__ == "__main__":
    for each in OFFERS:
        (FOLDER / f"{each}.yaml").write_text(render(each), encoding="utf-8")
