import datetime as dt

import pytest

import records
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.launch import Attempt, Cluster, Launch, Node
from cloudgan.schema.price_row import FeeRow
from cloudgan.schema.record import Numerics, RunRecord

NUMERICS = Numerics.model_construct()  # no cost depends on what is in it
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
TODAY = NOON.date()
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def started(step=0):
    sizes = {"training_showers": 100, "held_out_showers": 10}
    return records.started(step, numerics=NUMERICS, git_commit="c0ffee", **sizes)


def epoch(number, seconds, *, first=False, rate=100):
    traced = {"first": first, "trace_seconds": 1 if first else 0}
    return records.epoch(number, seconds, samples=320, samples_per_second=rate, **traced)


stopped = records.stopped


def plain_run(seconds):
    """A start of 5 s, a tracing epoch of 20 s, three of 10 s, and the end after `seconds`."""
    steady = (epoch(number, 10) for number in (1, 2, 3))
    return (started(), epoch(0, 20, first=True, rate=90), *steady, stopped(40, seconds))


def short_run():
    return RunRecord(lines=(started(), epoch(0, 20, first=True), stopped(10, 60)))


def node(up, down, name="a"):
    return Node(
        name=name, started_at=after(up), terminated_at=None if down is None else after(down)
    )


def attempt(*up_down, row=ROW, **more):
    """An attempt of a node for each pair of seconds after noon; None: it is still up."""
    known = {
        "provider": row.provider,
        "region": row.region,
        "node_type": row.node_type,
        "market": row.market,
        "nodes": tuple(node(*times, f"n{number}") for number, times in enumerate(up_down)),
        "price_rows": (row,),
    }
    return Attempt(**known | more)


def launch_of(*attempts):
    return Launch(run="gan", config_hash="abc", attempts=attempts)


def cluster_of(until, **more):
    """A cluster without system nodes that only one run used, from noon on."""
    known = {
        "name": "c",
        "control_plane": "GKE standard",
        "system_nodes": 0,
        "created_at": NOON,
        "deleted_at": after(until),
        "run_seconds": until,
    }
    return Cluster(**known | more)


def fee(kind, usd, name="x", **more):
    units = {"egress_gib": "gib", "storage_gib_month": "gib_month", "disk": "gib_month"}
    known = {
        "provider": "gcp",
        "region": "any",
        "unit": units.get(kind, "hour"),
        "source": "a test",
        "date": "2026-11-01",
        "confidence": "A",
    }
    return FeeRow(kind=kind, name=name, usd=usd, **known | more)


@pytest.fixture
def lines():
    return plain_run(70)


@pytest.fixture
def record(lines):
    return RunRecord(lines=lines)
