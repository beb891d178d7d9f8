"""Plans for Google Cloud, and a client of the emulated project on loopback."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.client import GcpClient
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.clouds.gcp.planner import store_url, target
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import INTERNAL_IPS, Showers, Workers, fill_placeholders
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.throughput_model import build_throughput_model
from emulators.gcp.server import TOKEN

if TYPE_CHECKING:
    from cloudgan.schema.plan import Plan
    from emulators.gcp.project import Project

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
    reservation: str | None = None,
    keep_cluster: bool = False,
    project: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    details: dict[str, str] | None = None,
    epochs: int = 2,
    **others: Any,
) -> Plan:
    """Returns a plan of `cloudgan plan --provider=gcp`, without price and wheels."""
    there = target(project, region, zone, cluster)
    there = there.model_copy(update={"details": there.details | (details or {})})
    url = others.pop("store", store_url(there))
    training: dict[str, Any] = {"epochs": epochs, "seed": 7, "threads": 2}
    training |= {"strategy": "multiworker", "workers": nodes} if nodes > 1 else {}
    config = {"name": name, "data": {"path": f"{url}/data/0a1b"}, "training": training}
    asked = PlanRequest(
        config=parse_config(config, "a test"),
        target=there,
        workers=Workers(nodes=nodes, cpus=2, memory_gib=8, image=OWN_IMAGE),
        store=url,
        showers=Showers(source="electrons.h5", records=124_987),
        owner="physicist",
        **others,
    )
    wanted = NodePoolRequest(
        run=name,
        spec_hash="",
        node_type=node_type,
        market=market,  # type: ignore[arg-type]
        nodes=nodes,
        flex_start=flex_start,
        reservation=reservation,
        keep_cluster=keep_cluster,
        has_own_image=own_image,
        internal_ips=bool(details and INTERNAL_IPS in details),
    )
    return make_plan(
        with_node_pool(asked, wanted), build_throughput_model("paper", 1000, ()), all_steps, NOW
    )


def priced(node_type: str, usd_per_hour: float) -> PriceRow:
    """Returns a node's price, for plans whose deadline follows from a budget."""
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


def cloud_of(project: Project, token: str = TOKEN, **options: Any) -> GcpClient:
    """Opens a client of the emulated project."""
    return GcpClient(
        Login(Credentials(token=token), "lab"),
        api_of(project, token, **options),
        poll_seconds=POLL_SECONDS,
    )


def api_of(project: Project, token: str = TOKEN, patience_seconds: float = 5.0) -> GoogleApi:
    session = AuthorizedSession(Credentials(token=token))
    return GoogleApi(
        session,
        "lab",
        endpoint=project.server.url,
        patience_seconds=patience_seconds,
        pause_seconds=POLL_SECONDS,
    )


def known(cloud: GcpClient, plan: Plan) -> Plan:
    """Resolves the placeholders of a plan, as `deploy` does."""
    found = fill_placeholders(plan, cloud.resolve_placeholders(plan))
    return found.model_copy(update={"steps": all_steps(found)})


def cloud_steps(plan: Plan) -> list[Any]:
    return [step for step in plan.steps if step.at == "cloud"]
