"""Writes the golden requests of a few GCP plans; `make golden` runs it."""

from __future__ import annotations

import yaml

from launch.clouds.gcp.lab import GOLDEN, cloud_steps, gcp_plan, priced

PLANS = {
    "gpu-one-node": lambda: gcp_plan(project="lab", zone="us-central1-a"),
    "v100-two-nodes-spot": lambda: gcp_plan(
        "n1-standard-8+1xV100", name="paper", nodes=2, market="spot"
    ),
    "a3-flex-start": lambda: gcp_plan("a3-highgpu-1g", name="flex", flex_start=True, max_hours=10),
    "budget-in-own-cluster-and-bucket": lambda: gcp_plan(
        "n1-standard-8+1xV100",
        name="thrifty",
        cluster="physics",
        store="gs://lab-data/gan",
        price=priced("n1-standard-8+1xV100", 3.6),
        budget_usd=9.0,
        max_hours=6.0,
    ),
}


def render(name: str) -> str:
    """Returns the text of a golden."""
    steps = [step.model_dump(exclude_none=True) for step in cloud_steps(PLANS[name]())]
    return yaml.safe_dump_all(steps, sort_keys=False, width=100)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.yaml"):
        old.unlink()
    for each in PLANS:
        (GOLDEN / f"{each}.yaml").write_text(render(each), encoding="utf-8")
