"""Machines and disks with our labels that no node pool has any more: they bill, and nobody sees them.

Kubernetes Engine gives a pool's `resourceLabels` to what Compute Engine makes for it (container.v1's
discovery document, revision 20261027), and takes it away with the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CredentialsError
from cloudgan.core.labels import RUN
from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.addresses import COMPUTE
from cloudgan.providers.gcp.machines import node_type_of
from cloudgan.providers.gcp.refusal import AbsentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cloudgan.core.thing import ThingState
    from cloudgan.providers.gcp.api import GoogleApi

INSTANCE_KIND, DISK_KIND = "Compute Engine instance", "disk"
_TABLES = {INSTANCE_KIND: "instances", DISK_KIND: "disks"}
_INSTANCE_RANK, _DISK_RANK = 20, 30
"""After pools, before clusters; a disk in use cannot be deleted."""
_STATES: dict[str, ThingState] = {
    "PENDING": "making",
    "PROVISIONING": "making",
    "STAGING": "making",
    "STOPPING": "leaving",
    "DEPROVISIONING": "leaving",
    "CREATING": "making",
    "RESTORING": "making",
    "DELETING": "leaving",
}
_OFF = ("STOPPED", "SUSPENDED", "TERMINATED")


class Leftovers:
    """What Compute Engine has of one project beside the machines of pools.

    Args:
        api: That is asked.
        project: Its id.
        say: Is told why nobody looked.
    """

    kinds = (INSTANCE_KIND, DISK_KIND)

    def __init__(
        self, api: GoogleApi, project: str, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._api, self._project, self._say = api, project, say

    def things(self, run: str | None, held: Collection[str | None]) -> tuple[Thing, ...]:
        """Lists what runs left: machines, and disks that no machine uses.

        Args:
            run: Whose; None: of all.
            held: Runs that have pools, whose machines come and go with these.
        """
        try:
            found = [
                (_thing(kind, body), body)
                for kind in self.kinds
                for body in self._labelled(_TABLES[kind], run)
            ]
        except CredentialsError as error:  # no reason to keep the pools
            self._say(f"machines and disks without a pool were not looked at: {error}")
            return ()
        return tuple(
            thing for thing, body in found if thing.run not in held and not body.get("users")
        )

    def delete(self, thing: Thing) -> None:
        """Asks for deletion; the disk that a machine started from goes with it."""
        try:
            self._api.send("DELETE", f"{COMPUTE}/{thing.name}", what=f"{thing.kind} {thing.name}")
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a machine or a disk as it is now."""
        body = self._api.find(f"{COMPUTE}/{thing.name}")
        return _thing(thing.kind, body) if body else None

    def _labelled(self, table: str, run: str | None) -> Iterator[dict[str, Any]]:
        url = f"{COMPUTE}/projects/{self._project}/aggregated/{table}"
        wanted = f"labels.{RUN}={run}" if run else f"labels.{RUN}:*"
        for page in self._api.pages(url, filter=wanted):
            for listed in page.get("items", {}).values():
                yield from listed.get(table, ())


def _thing(kind: str, body: dict[str, Any]) -> Thing:
    name = str(body["selfLink"]).partition("/compute/v1/")[2]
    common: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "state": _STATES.get(str(body.get("status")), "ready"),
        "labels": body.get("labels") or {},
        "region": name.split("/")[3],
        "made": body.get("creationTimestamp"),
    }
    if kind == DISK_KIND:
        return Thing(**common, rank=_DISK_RANK, fee=_last(body.get("type")))
    gpus = [
        {"acceleratorType": _last(one.get("acceleratorType")), "acceleratorCount": count}
        for one in body.get("guestAccelerators", ())
        if (count := one.get("acceleratorCount"))
    ]
    scheduling, is_off = body.get("scheduling") or {}, body.get("status") in _OFF
    return Thing(
        **common,
        rank=_INSTANCE_RANK,
        node_type=node_type_of({"machineType": _last(body["machineType"]), "accelerators": gpus}),
        nodes=0 if is_off else 1,
        fee="disks of a stopped machine" if is_off else None,
        market="spot" if scheduling.get("provisioningModel") == "SPOT" else "on_demand",
    )


def _last(url: str | None) -> str:
    return str(url or "").rpartition("/")[2]
