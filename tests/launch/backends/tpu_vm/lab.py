"""Plans of TPU slices, and a client of the Cloud TPU emulator."""

import contextlib
import json
import time
from dataclasses import replace

from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from cloudgan.launch.backends.tpu_vm.requests import slice_of
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.client import GcpClient
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import all_steps, make_plan, with_node_pool
from cloudgan.schema import plan as plans
from cloudgan.speed.model import build_throughput_model
from cloudgan.storage.store import open_store
from emulators.gcp.project import project
from emulators.gcp.server import TOKEN
from launch.plan.write_golden import NOW, RUN, asked
from records import price_row

KNOWN = {"<project>": "lab", "<zone>": "us-central1-b", "<cluster-location>": "us-central1-b"}
POLL_SECONDS = 0.01


def row(node_type, market="on_demand", region="us-central1"):
    return price_row(
        node_type=node_type,
        accelerator=f"TPU-{node_type.partition('-')[0]}",
        accelerator_count=slice_of(node_type).accelerators,
        accelerator_memory_gib=32,
        memory_gib=334,
        region=region,
        market=market,
        usd_per_hour=8.0,
        unit_sold="node",
        source="the goldens",
    )


def planned(node_type="v3-8", market="on_demand", *, store=None, workers=None, **others):
    """Returns a plan of `cloudgan plan`, with placeholders."""
    price = row(node_type, market)
    place = cloud_planner("gcp").target(None, price.region, None, None)
    kind = {"accelerator": price.accelerator, "accelerators_per_node": price.accelerator_count}
    kind["image"] = "python:3.11-slim"
    made = asked(
        workers=kind | (workers or {}),
        store=store or cloud_planner("gcp").store_url(place),
        price=price,
        **{"max_hours": 6.0} | others,
    )
    wanted = NodePoolRequest(run="gan", spec_hash="", node_type=node_type, market=market, nodes=1)
    made = with_node_pool(replace(made, target=place), wanted)
    return make_plan(made, build_throughput_model("paper", 124_987, (RUN,)), all_steps, NOW)


def resolved(plan):
    found = plans.fill_placeholders(plan, KNOWN)
    return found.model_copy(update={"steps": all_steps(found)})


def cloud_of(url, said=None):
    login = Login(Credentials(token=TOKEN), "lab")
    patience = {"patience_seconds": 2.0, "pause_seconds": 0.01}
    session = AuthorizedSession(Credentials(token=TOKEN))
    api = GoogleApi(session, "lab", endpoint=url, **patience)
    say = (lambda _: None) if said is None else said.append
    return GcpClient(login, api, say, poll_seconds=POLL_SECONDS)


def provider(url, store, said=None):
    """Returns the backend that `cloudgan deploy` uses."""
    say = (lambda _: None) if said is None else said.append
    cloud = cloud_of(url, said)
    return ProvisionedBackend(
        cloud,
        RunRegistry(open_store(store), "me"),
        all_steps=all_steps,
        say=say,
        poll_seconds=POLL_SECONDS,
    )


@contextlib.contextmanager
def tpus():
    with project() as made:
        yield made.tpus


def write_status(store, plan, phase, exit_code=None, stop_reason="", **others):
    """Writes the status file of a VM that has just booted."""
    now = int(time.time()) + 1
    content = {"phase": phase, "exit_code": exit_code, "stop_reason": stop_reason}
    content |= {"booted_at": now, "written_at": now}
    content |= {"deadline_seconds": plan.limits.deadline_seconds} | others
    name = f"runs/{plan.run}/{plan.node_pool.name}.json"
    open_store(store).put(name, json.dumps(content).encode())
