"""A plan of a run of which only labels are known: enough to ask its cluster whether it is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.config import RunConfig
from cloudgan.core.labels import EXPIRES, OWNER, SPEC
from cloudgan.core.plan import Forecast, Limits, Plan, Rental, Showers, Workers, filled
from cloudgan.providers.clouds import region_of

if TYPE_CHECKING:
    from cloudgan.core.plan import Place
    from cloudgan.launching.cloud import Thing

_UNKNOWN = "unknown"


def plan_of_stranger(thing: Thing, account: Place, location: str) -> Plan:
    """Returns a plan that says where a thing's run must be, if it is anywhere.

    Args:
        thing: With the labels of a run, in a cluster.
        account: A place of its account.
        location: Region or zone of its cluster.
    """
    run = thing.run or _UNKNOWN
    region = region_of(account.provider, thing.region)
    place = account.model_copy(
        update={
            "region": region,
            "cluster": thing.parent.rpartition("/")[2] or account.cluster,
        }
    )
    plan = Plan(
        run=run,
        owner=thing.labels.get(OWNER, _UNKNOWN),
        expires=thing.labels.get(EXPIRES, _UNKNOWN),
        spec=thing.labels.get(SPEC, _UNKNOWN),
        made=_UNKNOWN,
        place=place,
        store=_UNKNOWN,
        workers=Workers(nodes=max(1, thing.nodes), cpus=1, memory_gib=1),
        rental=Rental(
            node_type=thing.node_type or _UNKNOWN,
            market=thing.market or "on_demand",
            pool=thing.name.rpartition("/")[2] or _UNKNOWN,
        ),
        limits=Limits(max_hours=1, deadline_seconds=3600, deadline_why=_UNKNOWN),
        showers=Showers(source=_UNKNOWN),
        forecast=Forecast(epochs=1),
        config=RunConfig(name=run),
    )
    return filled(plan, {"<zone>": location})
