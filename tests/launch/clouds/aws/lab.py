"""An account of AWS on loopback."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws.client import AwsClient
from cloudgan.launch.clouds.aws.planner import setup_steps, target
from cloudgan.launch.clouds.resource import Resource
from cloudgan.storage.s3 import S3Store
from crashing import Outcome
from emulators.aws import Amazon, amazon
from emulators.kubernetes import Cluster
from launch.clouds.lab import POLL_SECONDS, Lab, planned

ACCOUNT, REGION = "123456789012", "us-east-1"
RESERVATION = "cr-0123456789abcdef0"
aws_plan = functools.partial(planned, "aws", gang_timeout_seconds=20.0)


class AwsLab(Lab):
    provider = "aws"
    account = staticmethod(lambda folder: amazon())

    def __init__(self, folder: Path, aws: Amazon, cluster: Cluster | None = None) -> None:
        super().__init__(folder, cluster)
        self.aws, self.session, self.attempts = aws, aws.session(), 3
        self.twin: Any = None
        self.setup()
        if cluster:
            aws.tie(cluster)

    def setup(self) -> None:
        """Runs `setup` without AWS' managed policies, which moto loads slowly."""
        for step in setup_steps(target(ACCOUNT, REGION, None, None)):
            if step.method in ("CreatePolicy", "CreateRole"):
                self.cloud().create(step)

    def planned(self, node_type: str = "", **asked: Any) -> Any:
        return aws_plan(node_type, **asked)

    def lose_patience(self) -> None:
        self.attempts = 1

    def cloud(self) -> AwsClient:
        how = {"attempts": self.attempts, "poll_seconds": POLL_SECONDS}
        return AwsClient(self.session, REGION, self.said.append, **how)

    def store(self) -> S3Store:
        return S3Store(f"cloudgan-{ACCOUNT}-{REGION}", client=self.session.client("s3"))

    def create_cluster(self, name: str, *, is_active: bool = True, **others: Any) -> Any:
        """Creates a cluster as its owner does, without cloudgan."""
        subnets = self.aws.state.networks[REGION].subnets
        self.session.client("eks", REGION).create_cluster(
            name=name,
            version="1.34",
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/cloudgan-cluster",
            resourcesVpcConfig={"subnetIds": [one["SubnetId"] for one in subnets]},
            **others,
        )
        made = self.aws.state.planes[REGION, name]
        made.status = "ACTIVE" if is_active else made.status
        return made

    def forked(self) -> AwsLab:
        """Clients take long to create, so those of the fork exist before, and only it sends by them."""
        twin = copy.copy(self)
        twin.session = self.twin = self.twin or self.aws.session()
        for service in ("autoscaling", "ec2", "eks", "s3", "scheduler", "sts"):
            twin.session.client(service, REGION)
        return twin

    def killed(self, *arguments: Any) -> Outcome:
        """Names calls by their operations: they all go to one path."""
        before = len(self.aws.operations)
        done = super().killed(*arguments)
        asked = iter(self.aws.operations[before:])
        calls = (call if " /api" in call else next(asked, call) for call in done.calls)
        return done._replace(calls=tuple(calls))

    def reserve(self, count: int = 2, node_type: str = "g4dn.xlarge", **how: Any) -> str:
        self.aws.state.reserve(RESERVATION, node_type, count, f"{REGION}b", **how)
        return RESERVATION

    def left(self) -> list[str]:
        machines = [one for group in self.aws.state.groups() for one in group.machines]
        found = [one for one in self.aws.state.left() if one not in machines]
        return sorted([*found, *["machine"] * len(machines)])

    def pools_created(self) -> int:
        return self.aws.operations.count("CreateNodegroup")

    def names_of(self, resource: Resource) -> list[str]:
        assert resource.labels.get(SHARED) in (None, "cluster")
        name = f"{resource.kind.partition(' ')[2]} {resource.name}"
        return [name, *["machine"] * resource.nodes]
