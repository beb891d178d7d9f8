"""An emulated Azure, a plan for it, and a backend of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import all_steps
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.plan import fill_placeholders
from cloudgan.storage.store import open_store
from emulators.azure.cloud import SUBSCRIPTION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.schema.plan import Plan
    from emulators.azure import SmallAzure

IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
REGION = "eastus"


@dataclass
class Lab:
    """An emulated subscription after `setup`, and a folder for the desired states of runs."""

    azure: SmallAzure
    plan_of: Callable[..., Plan]
    folder: Path
    said: list[str]

    def cloud(self) -> Any:
        return self.azure.cloud(requests.target(None, REGION, None, None), self.said.append)

    def set_up(self) -> None:
        place = requests.target(SUBSCRIPTION, REGION, None, None)
        maker = Engine(self.cloud(), self.said.append, 0.001)
        for step in requests.setup_steps(place):
            maker.ensure(step, plan_for(self.plan_of))

    def plan(self, **changes: Any) -> Plan:
        """Returns a plan without placeholders."""
        plan = plan_for(self.plan_of, **changes)
        found = fill_placeholders(plan, self.cloud().resolve_placeholders(plan))
        return found.model_copy(update={"steps": all_steps(found)})

    def provider(self) -> ProvisionedBackend:
        """Opens the client as another process does."""
        cloud = self.cloud()

        def inner(plan: Plan) -> Any:
            api = cloud.cluster_api(plan.target)
            return KubernetesBackend(api, "cloudgan") if api else None

        run_registry = RunRegistry(open_store(str(self.folder / "store")), "a test")
        return ProvisionedBackend(
            cloud,
            run_registry,
            inner=inner,
            all_steps=all_steps,
            say=self.said.append,
            poll_seconds=0.002,
        )


def plan_for(
    plan_of: Callable[..., Plan],
    *,
    offer: str = f"azure/Standard_NC4as_T4_v3/{REGION}/on_demand",
    name: str = "gan",
    nodes: int = 1,
    account: str | None = None,
    **asked: Any,
) -> Plan:
    """Returns the plan of an offer, as the command line would make it."""
    row = load_catalog().row(offer)
    cluster, reservation = asked.pop("cluster", None), asked.pop("reservation", None)
    place = requests.target(account, row.region, asked.pop("zone", None), cluster)
    workers = {
        "nodes": nodes,
        "accelerator": row.accelerator,
        "accelerators_per_node": row.accelerator_count,
        "cpus": 3,
        "memory_gib": 16,
        "image": IMAGE,
    }
    wanted = NodePoolRequest(name, "", row.node_type, row.market, nodes, reservation=reservation)
    return plan_of(
        rent=wanted,
        name=name,
        target=place.model_dump(),
        workers=workers,
        price=row,
        wheels=(),
        store=requests.store_url(place),
        **asked,
    )
