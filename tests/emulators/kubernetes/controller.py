"""Controller loop that runs after each change, and its events."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.status_errors import Refusal
from emulators.kubernetes.store import now

if TYPE_CHECKING:
    from emulators.kubernetes.store import Store

Object = dict[str, Any]


class Controller(threading.Thread):
    """Calls `sync` after each change, and when the seconds that it returned are over."""

    def __init__(self, store: Store) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.store = store

    def sync(self) -> float | None:
        """Reconciles; returns after how many seconds it must run again without a change."""
        raise NotImplementedError

    def run(self) -> None:
        store, seen, patience = self.store, -1, None
        while not store.closed:
            with store.changed:
                # A time-out may end the wait with nothing new: that is a reason to look again too.
                known = seen
                store.changed.wait_for(
                    lambda known=known: store.closed or store.revision != known, patience
                )
            store.wait_while_away()
            with store.changed:
                if store.closed:
                    return
                seen = store.revision
                try:
                    patience = self.sync()
                except Refusal as refusal:
                    if refusal.code not in {404, 409}:
                        store.troubles.append(refusal)
                    patience = 0.05
                except Exception as error:  # the cluster reports it when it ends
                    store.troubles.append(error)
                    raise


def record_event(
    store: Store,
    about: Object,
    reason: str,
    message: str,
    *,
    kind: str = "Normal",
    by: str = "kubelet",
) -> None:
    """Records an event about an object; the same one again only counts."""
    own = about["metadata"]
    namespace = own.get("namespace", "default")
    with store.changed:
        for event in store.select("events", namespace):
            same = event["involvedObject"].get("uid") == own.get("uid")
            if same and (event["reason"], event["message"]) == (reason, message):
                event["count"] += 1
                event["lastTimestamp"] = now()
                store.replace("events", event)
                return
        if store.find("namespaces", None, namespace) is None:
            return
        involved = {
            "kind": about["kind"],
            "apiVersion": about["apiVersion"],
            "name": own["name"],
            "namespace": namespace,
            "uid": own["uid"],
        }
        outcome = {
            "metadata": {"name": f"{own['name']}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": by},
            "reportingComponent": by,
            "reportingInstance": "",
        }
        store.insert("events", outcome)
