"""Plans of TPUs, and Cloud TPU's stand-in with a cloud that speaks to it."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace

from google.oauth2.credentials import Credentials

from cloudgan.core import plan as plans
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.elsewhere import speeds
from cloudgan.launching.intents import Intents
from cloudgan.launching.rented import RentedProvider
from cloudgan.planning.planning import make_plan
from cloudgan.planning.renting import all_steps, rented
from cloudgan.providers.clouds import Wanted, rules
from cloudgan.providers.gcp.api import GoogleApi
from cloudgan.providers.gcp.cloud import GcpCloud
from cloudgan.providers.gcp.login import Login
from cloudgan.providers.gcp.tpu_slices import SLICES
from cloudgan.stores import open_store
from google_cloud.project import project
from google_cloud.server import TOKEN
from planning.write_golden import NOW, RUN, asked

KNOWN = {"<project>": "lab", "<zone>": "us-central1-b", "<cluster-location>": "us-central1-b"}
POLL_SECONDS = 0.01


def row(node_type, market="on_demand", region="us-central1"):
    return PriceRow(
        provider="gcp",
        node_type=node_type,
        accelerator=f"TPU-{node_type.partition('-')[0]}",
        accelerator_count=SLICES[node_type].chips,
        accelerator_memory_gib=32,
        vcpu=96,
        memory_gib=334,
        region=region,
        market=market,
        usd_per_hour=8.0,
        unit_sold="node",
        source="the goldens",
        date="2026-11-01",
        confidence="A",
        snapshot="current",
    )


def planned(node_type="v3-8", market="on_demand", *, store=None, workers=None, **others):
    """A plan as `cloudgan plan` makes it, with placeholders; its store is a folder where one is given."""
    price = row(node_type, market)
    place = rules("gcp").place(None, price.region, None, None)
    kind = {"accelerator": price.accelerator, "accelerators_per_node": price.accelerator_count}
    made = asked(
        workers=kind | (workers or {}),
        store=store or rules("gcp").store(place),
        price=price,
        **{"max_hours": 6.0} | others,
    )
    wanted = Wanted(run="gan", spec="", node_type=node_type, market=market, nodes=1)
    made = rented(replace(made, place=place), wanted)
    return make_plan(made, speeds("paper", 124_987, (RUN,)), all_steps, NOW)


def resolved(plan):
    found = plans.filled(plan, KNOWN)
    return found.model_copy(update={"steps": all_steps(found)})


def cloud_of(url, said=None):
    login = Login(Credentials(token=TOKEN), "lab")
    patience = {"patience_seconds": 2.0, "pause_seconds": 0.01}
    api = GoogleApi(login.session(), endpoint=url, **patience)
    say = (lambda _: None) if said is None else said.append
    return GcpCloud(login, api, "lab", say, poll_seconds=POLL_SECONDS)


def provider(url, store, said=None):
    """What `cloudgan deploy` speaks to."""
    say = (lambda _: None) if said is None else said.append
    cloud = cloud_of(url, said)
    return RentedProvider(
        cloud,
        Intents(open_store(store), "somebody"),
        inner=cloud.tpu_vms,
        all_steps=all_steps,
        say=say,
        poll_seconds=POLL_SECONDS,
    )


@contextlib.contextmanager
def tpus():
    with project() as made:
        yield made.tpus


def note(store, plan, phase, exit_code=None, told="", **others):
    """Writes what a machine would, which booted just now."""
    now = int(time.time()) + 1
    content = {"phase": phase, "exit_code": exit_code, "told": told, "began": now, "at": now}
    content |= {"deadline_seconds": plan.limits.deadline_seconds} | others
    name = f"runs/{plan.run}/{plan.rental.pool}.json"
    open_store(store).put(name, json.dumps(content).encode())
