"""Writes the golden manifests of a plan, and makes other plans; `make golden` runs it.

Values that differ from day to day are arguments of planning. The plan itself and the programs for wheels, which
the ConfigMap holds too, are named instead of repeated.
"""

import datetime as dt
import sys
from pathlib import Path

import yaml

from cloudgan.core import assets
from cloudgan.launch.kubernetes.manifests import WHEEL_FILES, manifest_steps
from cloudgan.launch.plan.build import PlanRequest, make_plan
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Showers, Target, Wheel, Workers
from cloudgan.speed.measured import MeasuredThroughput
from cloudgan.speed.model import build_throughput_model
from records import price_row

FOLDER = Path(__file__).parent / "golden"
GOLDEN = "four-nodes-of-eight-gpus"
"""The plan that is kept as a file; of the others only the validity is tested."""
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PUBLIC = "tensorflow/tensorflow:2.21.0"
OWN = "registry.example/lab/cloudgan@sha256:" + "5" * 64
WHEELS = (
    Wheel(file_name="cloudgan-1.0-py3-none-any.whl", sha256="1" * 64, bytes=300_000),
    Wheel(file_name="keras-3.15.0-py3-none-any.whl", sha256="2" * 64, bytes=1_500_000),
)
EIGHT_V100 = price_row(usd_per_hour=10.0, source="the goldens")
# An epoch of the paper on 8 GPUs, as a run could have measured it.
RUN = MeasuredThroughput(
    "V100", 8, 124_987, 300.0, 20.0, 60.0, "a run on 8 x V100", 64, 124_987 / 512
)
EIGHT = {"accelerator": "V100", "accelerators_per_node": 8, "cpus": 64, "memory_gib": 128}


def asked(*, name="gan", store="gs://lab/cloudgan", target=None, workers=None, **others):
    data = "/cloudgan/store/data" if store.startswith("pvc:") else f"{store}/data/0a1b"
    nodes = (workers or {}).get("nodes", 1)
    training = {"epochs": 60, "seed": 7, "threads": 4}
    training |= {"strategy": "multiworker", "workers": nodes} if nodes > 1 else {}
    config = {"name": name, "data": {"path": data}, "training": training}
    cluster = {"provider": "kubernetes", "context": "lab", "server": "https://192.0.2.1:6443"}
    kind = {"nodes": 1, "cpus": 4, "memory_gib": 8, "image": PUBLIC}
    values = {
        "config": parse_config(config, "a golden"),
        "target": Target(**cluster | {"namespace": "cloudgan"} | (target or {})),
        "workers": Workers(**kind | (workers or {})),
        "store": store,
        "showers": Showers(source=data, records=124_987),
        "owner": "physicist",
        "wheels": WHEELS,
    }
    return PlanRequest(**values | others)


PLANS = {
    "one-node": asked(),
    "four-nodes-of-eight-gpus": asked(
        name="paper-32",
        workers=EIGHT | {"nodes": 4, "image": "python:3.11-slim"},
        price=EIGHT_V100,
        budget_usd=150.0,
        max_hours=6.0,
    ),
    "claim-and-own-image": asked(store="pvc:results", workers={"image": OWN}, wheels=()),
    "queue": asked(target={"queue": "physics", "namespace": "team-gan"}, workers={"nodes": 2}),
    "secrets-and-own-s3": asked(
        store="s3://lab/cloudgan",
        store_port=9000,
        target={"service_account": "gan"},
        workers={
            "kubernetes_secrets": ("s3-login", "ca"),
            "node_selector": {"pool": "gpu", "disk": "ssd"},
        },
    ),
    "gang": asked(workers={"nodes": 2, "image": OWN}, wheels=()),
}


def plan(name):
    """Returns the plan of a golden, as this code makes it."""
    known = build_throughput_model("paper", 124_987, (RUN,))
    return make_plan(
        PLANS[name], known, lambda made: manifest_steps(made, gang=name == "gang"), NOW
    )


def render(name):
    """Returns the text of a golden."""
    bodies = [step.body for step in plan(name).steps if step.body]
    for body in bodies:
        if body["metadata"]["name"].endswith("-ports") and body["kind"] == "Job":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            assert container["command"][2] == assets.read_text("k8s/port_probe.py")
            container["command"][2] = "<k8s/port_probe.py>"
        for program in set(WHEEL_FILES) & set(body.get("data", {})):
            assert body["data"][program] == assets.read_text(f"k8s/{program}")
            body["data"][program] = f"<k8s/{program}>"
    return yaml.dump_all(bodies, Dumper=_Readable, sort_keys=False)


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper, text):
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (folder / f"{GOLDEN}.yaml").write_text(render(GOLDEN), encoding="utf-8")
