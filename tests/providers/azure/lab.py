"""What tests of Azure have in hand: a small Azure, a plan for it, and a provider of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure_cloud.cloud import SUBSCRIPTION
from cloudgan.core.plan import filled
from cloudgan.cost.catalog import load_catalog
from cloudgan.launching.intents import Intents
from cloudgan.launching.making import Maker
from cloudgan.launching.rented import RentedProvider
from cloudgan.planning.renting import all_steps
from cloudgan.providers.azure import requests
from cloudgan.providers.clouds import Wanted
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_cloud import SmallAzure
    from cloudgan.core.plan import Plan

IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
REGION = "eastus"


@dataclass
class Lab:
    """A small Azure on which `setup` was done, and a folder for the intents of runs."""

    azure: SmallAzure
    plan_of: Callable[..., Plan]
    folder: Path
    said: list[str]

    def cloud(self) -> Any:
        return self.azure.cloud(requests.place(None, REGION, None, None), self.said.append)

    def set_up(self) -> None:
        place = requests.place(SUBSCRIPTION, REGION, None, None)
        maker = Maker(self.cloud(), self.said.append, 0.001)
        for step in requests.setup_steps(place):
            maker.ensure(step, plan_for(self.plan_of))

    def plan(self, **changes: Any) -> Plan:
        """A plan with nothing left to fill in."""
        plan = plan_for(self.plan_of, **changes)
        found = filled(plan, self.cloud().known(plan))
        return found.model_copy(update={"steps": all_steps(found)})

    def provider(self) -> RentedProvider:
        """As another process would open it."""
        cloud = self.cloud()

        def inner(plan: Plan) -> Any:
            api = cloud.cluster(plan)
            return KubernetesProvider(api, "cloudgan") if api else None

        intents = Intents(open_store(str(self.folder / "store")), "a test")
        return RentedProvider(
            cloud,
            intents,
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
    place = requests.place(account, row.region, asked.pop("zone", None), None)
    workers = {
        "nodes": nodes,
        "accelerator": row.accelerator,
        "accelerators_per_node": row.accelerator_count,
        "cpus": 3,
        "memory_gib": 16,
        "image": IMAGE,
    }
    wanted = Wanted(name, "", row.node_type, row.market, nodes)
    return plan_of(
        rent=wanted,
        name=name,
        place=place.model_dump(),
        workers=workers,
        price=row,
        wheels=(),
        store=requests.store(place),
        **asked,
    )
