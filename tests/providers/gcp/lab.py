"""What tests of Google Cloud have in hand: plans, and a cloud that speaks to a project on loopback."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from cloudgan.core.config import parse_config
from cloudgan.core.plan import Showers, Workers, filled
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.elsewhere import speeds
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.planning.renting import all_steps, rented
from cloudgan.providers.clouds import Wanted
from cloudgan.providers.gcp.api import GoogleApi
from cloudgan.providers.gcp.cloud import GcpCloud
from cloudgan.providers.gcp.login import Login
from cloudgan.providers.gcp.requests import place, store
from google_cloud.server import TOKEN

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan
    from google_cloud.project import Project

GOLDEN = Path(__file__).parent / "golden"
NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)
OWN_IMAGE = "registry.example/lab/cloudgan@sha256:" + "5" * 64
POLL_SECONDS = 0.001


def gcp_plan(
    node_type: str = "g2-standard-4",
    *,
    name: str = "gan",
    nodes: int = 1,
    market: str = "on_demand",
    region: str = "us-central1",
    own_image: bool = True,
    flex_start: bool = False,
    keep_cluster: bool = False,
    project: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    epochs: int = 2,
    **others: Any,
) -> Plan:
    """Makes a plan as `cloudgan plan --provider=gcp` does, without price and wheels."""
    there = place(project, region, zone, cluster)
    url = others.pop("store", store(there))
    training: dict[str, Any] = {"epochs": epochs, "seed": 7, "threads": 2}
    training |= {"strategy": "multiworker", "workers": nodes} if nodes > 1 else {}
    config = {"name": name, "data": {"path": f"{url}/data/0a1b"}, "training": training}
    asked = Asked(
        config=parse_config(config, "a test"),
        place=there,
        workers=Workers(nodes=nodes, cpus=2, memory_gib=8, image=OWN_IMAGE),
        store=url,
        showers=Showers(source="electrons.h5", records=124_987),
        owner="physicist",
        **others,
    )
    wanted = Wanted(
        run=name,
        spec="",
        node_type=node_type,
        market=market,  # type: ignore[arg-type]
        nodes=nodes,
        flex_start=flex_start,
        keep_cluster=keep_cluster,
        has_own_image=own_image,
    )
    return make_plan(rented(asked, wanted), speeds("paper", 1000, ()), all_steps, NOW)


def priced(node_type: str, usd_per_hour: float) -> PriceRow:
    """A price of a node, for plans whose deadline comes from a budget."""
    return PriceRow(
        provider="gcp",
        node_type=node_type,
        accelerator="V100",
        accelerator_count=1,
        accelerator_memory_gib=16,
        vcpu=8,
        memory_gib=30,
        region="us-central1",
        market="on_demand",
        usd_per_hour=usd_per_hour,
        unit_sold="parts",
        source="a test",
        date="2026-11-01",
        confidence="A",
        snapshot="current",
    )


def cloud_of(project: Project, token: str = TOKEN, **options: Any) -> GcpCloud:
    """Opens a cloud that speaks to a project on loopback."""
    return GcpCloud(
        Login(Credentials(token=token), "lab"),
        api_of(project, token, **options),
        "lab",
        poll_seconds=POLL_SECONDS,
    )


def api_of(project: Project, token: str = TOKEN, patience_seconds: float = 5.0) -> GoogleApi:
    session = AuthorizedSession(Credentials(token=token))
    return GoogleApi(
        session,
        endpoint=project.server.url,
        patience_seconds=patience_seconds,
        pause_seconds=POLL_SECONDS,
    )


def known(cloud: GcpCloud, plan: Plan) -> Plan:
    """Fills in what only the cloud knows, as `deploy` does."""
    found = filled(plan, cloud.known(plan))
    return found.model_copy(update={"steps": all_steps(found)})


def cloud_steps(plan: Plan) -> list[Any]:
    return [step for step in plan.steps if step.at == "cloud"]
