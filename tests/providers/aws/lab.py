"""What tests of AWS have in hand: an account, a cloud on it, and plans of a run there."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudgan.core.config import RunConfig
from cloudgan.core.image_order import ImageOrder
from cloudgan.core.labels import SHARED
from cloudgan.core.plan import Place, Plan, Showers, Workers, filled
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.elsewhere import speeds
from cloudgan.launching.image_building import build_image
from cloudgan.launching.intents import Intents
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.rented import RentedProvider
from cloudgan.launching.starting import start
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.planning.renting import all_steps, rented
from cloudgan.providers.aws.account import Account
from cloudgan.providers.aws.cloud import AwsCloud
from cloudgan.providers.aws.image_build import AwsImageBuilder
from cloudgan.providers.aws.requests import place, setup_steps, store
from cloudgan.providers.clouds import Wanted
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.run_folder import RunFolder
from cloudgan.stores.s3 import S3Store

if TYPE_CHECKING:
    from pathlib import Path

    from amazon import Amazon

IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
POLL_SECONDS = 0.01
T4 = "aws/g4dn.xlarge/us-east-1/on_demand"


def planned(
    name: str = "gan", offer: str = T4, *, nodes: int = 1, rent: Any = None, **others: Any
) -> Plan:
    """A plan as the command line makes it, with what only AWS knows still open."""
    row = load_catalog().row(offer)
    asked = {"account": None, "zone": None, "cluster": None, "keep_cluster": False} | (rent or {})
    where = place(asked["account"], row.region, asked["zone"], asked["cluster"])
    workers = {"nodes": nodes, "cpus": 1, "memory_gib": 1, "image": IMAGE}
    wanted = Wanted(
        run=name,
        spec="",
        node_type=row.node_type,
        market=row.market,
        nodes=nodes,
        keep_cluster=asked["keep_cluster"],
        has_own_image=True,
    )
    values = {
        "config": RunConfig(name=name),
        "place": where,
        "workers": Workers(
            accelerator=row.accelerator, accelerators_per_node=row.accelerator_count, **workers
        ),
        "store": store(where),
        "showers": Showers(source="s3://lab/data"),
        "owner": "physicist",
        "price": row,
        "gang_timeout_seconds": 20.0,
    }
    made = rented(Asked(**values | others), wanted)
    return make_plan(made, speeds("paper", 1000, ()), all_steps, NOW)


@dataclass
class Lab:
    """An account, its cluster, and one launcher."""

    aws: Amazon
    folder: Path
    cluster: Any = None
    said: list[str] = field(default_factory=list)
    session: Any = None

    def __post_init__(self) -> None:
        self.session = self.session or self.aws.session()

    def cloud(self) -> AwsCloud:
        """A launcher's view: it remembers nothing but who is logged in."""
        return AwsCloud(self.session, "us-east-1", self.said.append, attempts=3)

    def resolved(self, plan: Plan, cloud: AwsCloud | None = None) -> Plan:
        found = filled(plan, (cloud or self.cloud()).known(plan))
        return found.model_copy(update={"steps": all_steps(found)})

    def provider(self, cloud: AwsCloud, plan: Plan) -> RentedProvider:
        """A launcher of its own, as a new process has one."""
        bucket = plan.store.removeprefix("s3://")
        objects = S3Store(bucket, client=self.session.client("s3"))

        def inner(known: Plan) -> KubernetesProvider | None:
            api = cloud.cluster(known)
            return KubernetesProvider(api, str(known.place.namespace)) if api else None

        return RentedProvider(
            cloud,
            Intents(objects, "a test"),
            inner=inner,
            all_steps=all_steps,
            say=self.said.append,
            poll_seconds=POLL_SECONDS,
        )

    def deploy(self, plan: Plan) -> Plan:
        """What `deploy --detach` does; returns the plan with all that AWS knows."""
        cloud = self.cloud()
        whole = self.resolved(plan, cloud)
        provider = self.provider(cloud, whole)
        ledger = Ledger(RunFolder(self.folder / "runs" / plan.run), whole)
        start(whole, provider, ledger, self.said.append)
        return whole

    def setup(self, region: str = "us-east-1") -> None:
        """What `setup` does, without Amazon's own policies, which moto loads for seconds."""
        cloud = self.cloud()
        for step in setup_steps(place(cloud.identify()["account"], region, None, None)):
            if step.method == "CreateRole":
                cloud.create(step)

    def left(self) -> list[str]:
        """All that exists and is not for all runs of the account."""
        there = self.cloud().things()
        kept = [one for one in there if one.labels.get(SHARED) not in ("bucket", "role")]
        return [f"{one.kind} {one.name}" for one in kept] + self.aws.state.left()


def built(lab: Lab, region: str = "us-east-1", account: str = "123456789012") -> str:
    """What `cloudgan image` does in a region; returns the digest."""
    bucket = f"cloudgan-{account}-us-east-1"
    where = Place(provider="aws", account=account, region=region)
    order = ImageOrder(where, f"s3://{bucket}", "gpu", "0.1-gpu-ab", "ab" * 32)
    builder = AwsImageBuilder(
        Account(lab.session, attempts=1),
        account,
        store=lambda _: S3Store(bucket, client=lab.session.client("s3")),
        role_seconds=0.0,
    )
    said = lab.said.append
    return build_image(builder, order, b"packed", said, said, poll_seconds=0.0)
