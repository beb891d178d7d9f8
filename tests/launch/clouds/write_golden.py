"""Writes the golden requests of one plan for each cloud; `make golden` runs it.

They leave out the Kubernetes objects, which are the same on every cloud.
"""

from pathlib import Path

import yaml

from launch.clouds.lab import planned

FOLDER = Path(__file__).parent / "golden"
PLANS = {
    "aws": ("g4dn.xlarge", {"region": "us-west-2"}),
    "azure": ("Standard_NC4as_T4_v3", {"region": "westus2"}),
    "gcp": ("n1-standard-8+1xV100", {}),
}


def render(provider):
    """Returns the text of a golden: two spot nodes."""
    node_type, where = PLANS[provider]
    made = planned(provider, node_type, name="spot", nodes=2, market="spot", **where)
    job = next(step.body for step in made.steps if step.ensure.startswith("Job "))
    template = job["spec"]["template"]
    of_pod = ("nodeSelector", "tolerations", "terminationGracePeriodSeconds", "serviceAccountName")
    seen = {
        "target": made.target.model_dump(mode="json", exclude_none=True),
        "node_pool": made.node_pool.model_dump(mode="json", exclude_defaults=True),
        "requests": [
            step.model_dump(mode="json", exclude_none=True)
            for step in made.steps
            if step.at in ("cloud", "store")
        ],
        "pods": {
            "labels": template["metadata"]["labels"],
            **{key: template["spec"].get(key) for key in of_pod},
        },
    }
    return yaml.safe_dump(seen, sort_keys=False, width=100)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in PLANS:
        (FOLDER / f"{each}.yaml").write_text(render(each), encoding="utf-8")
