"""An emulated AWS account, a client of it, and plans for it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudgan.core.labels import SHARED
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.clouds.aws.client import AwsClient
from cloudgan.launch.clouds.aws.planner import setup_steps, store_url, target
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Plan, Showers, Workers, fill_placeholders
from cloudgan.schema.run_folder import RunFolder
from cloudgan.speed.throughput_model import build_throughput_model
from cloudgan.storage.s3 import S3Store

if TYPE_CHECKING:
    from pathlib import Path

    from emulators.aws import Amazon

IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
POLL_SECONDS = 0.01
RESERVATION = "cr-0123456789abcdef0"
T4 = "aws/g4dn.xlarge/us-east-1/on_demand"


def planned(
    name: str = "gan", offer: str = T4, *, nodes: int = 1, rent: Any = None, **others: Any
) -> Plan:
    """Returns a plan of the command line, with placeholders."""
    row = load_catalog().row(offer)
    asked = dict.fromkeys(("account", "zone", "cluster", "reservation")) | {"keep_cluster": False}
    asked |= rent or {}
    where = target(asked["account"], row.region, asked["zone"], asked["cluster"])
    workers = {"nodes": nodes, "cpus": 1, "memory_gib": 1, "image": IMAGE}
    wanted = NodePoolRequest(
        run=name,
        spec_hash="",
        node_type=row.node_type,
        market=row.market,
        nodes=nodes,
        keep_cluster=asked["keep_cluster"],
        reservation=asked["reservation"],
        has_own_image=True,
    )
    values = {
        "config": RunConfig(name=name),
        "target": where,
        "workers": Workers(
            accelerator=row.accelerator, accelerators_per_node=row.accelerator_count, **workers
        ),
        "store": store_url(where),
        "showers": Showers(source="s3://lab/data"),
        "owner": "physicist",
        "price": row,
        "gang_timeout_seconds": 20.0,
    }
    made = with_node_pool(PlanRequest(**values | others), wanted)
    return make_plan(made, build_throughput_model("paper", 1000, ()), all_steps, NOW)


@dataclass
class Lab:
    """An account, its cluster, and one launcher."""

    aws: Amazon
    folder: Path
    cluster: Any = None
    said: list[str] = field(default_factory=list)
    session: Any = None
    attempts: int = 3

    def __post_init__(self) -> None:
        self.session = self.session or self.aws.session()

    def cloud(self) -> AwsClient:
        """Returns a client with the login, without other state."""
        return AwsClient(self.session, "us-east-1", self.said.append, attempts=self.attempts)

    def resolved(self, plan: Plan, cloud: AwsClient | None = None) -> Plan:
        found = fill_placeholders(plan, (cloud or self.cloud()).resolve_placeholders(plan))
        return found.model_copy(update={"steps": all_steps(found)})

    def provider(self, cloud: AwsClient, plan: Plan) -> ProvisionedBackend:
        """Returns another launcher, as in a new process."""
        bucket = plan.store.removeprefix("s3://")
        objects = S3Store(bucket, client=self.session.client("s3"))

        def inner(known: Plan) -> KubernetesBackend | None:
            api = cloud.cluster_api(known.target)
            return KubernetesBackend(api, str(known.target.namespace)) if api else None

        return ProvisionedBackend(
            cloud,
            RunRegistry(objects, "a test"),
            inner=inner,
            all_steps=all_steps,
            say=self.said.append,
            poll_seconds=POLL_SECONDS,
        )

    def deploy(self, plan: Plan) -> Plan:
        """Deploys like `deploy --detach`; returns the resolved plan."""
        cloud = self.cloud()
        whole = self.resolved(plan, cloud)
        provider = self.provider(cloud, whole)
        ledger = LaunchLog(RunFolder(self.folder / "runs" / plan.run), whole)
        apply(whole, provider, ledger, self.said.append)
        return whole

    def setup(self, region: str = "us-east-1") -> None:
        """Runs `setup` without AWS' managed policies, which moto loads slowly."""
        cloud = self.cloud()
        for step in setup_steps(target(cloud.identify()["account"], region, None, None)):
            if step.method in ("CreatePolicy", "CreateRole"):
                cloud.create(step)

    def create_cluster(self, name: str, **others: Any) -> None:
        """Creates a cluster as its owner does, without cloudgan."""
        subnets = self.aws.state.networks["us-east-1"].subnets
        self.session.client("eks", "us-east-1").create_cluster(
            name=name,
            version="1.34",
            roleArn="arn:aws:iam::123456789012:role/cloudgan-cluster",
            resourcesVpcConfig={"subnetIds": [one["SubnetId"] for one in subnets]},
            **others,
        )

    def left(self) -> list[str]:
        """The resources that not all runs of the account share."""
        there = self.cloud().list_resources()
        kept = [
            one for one in there if one.labels.get(SHARED) not in ("boundary", "bucket", "role")
        ]
        return [f"{one.kind} {one.name}" for one in kept] + self.aws.state.left()
