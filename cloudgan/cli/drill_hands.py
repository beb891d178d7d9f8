"""The hands of a drill: they type cloudgan's own commands, and cause accidents."""

from __future__ import annotations

import contextlib
import io
import json
import time
from typing import TYPE_CHECKING

from cloudgan.auditing.drill import Answer, DrillError
from cloudgan.cli.place import NAMESPACE, RUNS
from cloudgan.core import plan as plans
from cloudgan.core.labels import RUN
from cloudgan.launching.nodes import nodes_of
from cloudgan.providers.clouds import open_cloud

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Place, Plan
    from cloudgan.launching.cloud import Cloud


class TypingHands:
    """Fulfils the drill's `Hands` in this process.

    Args:
        place: Of the account.
        program: Runs a command line and ends with SystemExit, as `cloudgan` itself does.
    """

    def __init__(self, place: Place, program: Callable[[list[str]], None]) -> None:
        self._place, self._program = place, program
        self._cloud: Cloud | None = None

    def type(self, *words: str) -> Answer:
        """Runs a command; what it says to people goes where it always does."""
        printed = io.StringIO()
        code: object = 0
        with contextlib.redirect_stdout(printed):
            try:
                self._program([*words, "--json"])
            except SystemExit as ended:
                code = ended.code
        text = printed.getvalue()
        return Answer(int(str(code or 0)), json.loads(text) if text.strip() else {})

    def evict(self, run: str, index: int, grace_seconds: int | None) -> None:
        """Takes a worker's pod away by the eviction API, as a node does that is drained.

        Raises:
            DrillError: No such pod runs.
        """
        plan = self._plan(run)
        api = self._account().cluster(plan)
        pods = f"/api/v1/namespaces/{plan.place.namespace or NAMESPACE}/pods"
        found = api.list(pods, f"{RUN}={run}")["items"] if api else []
        names = [
            one["metadata"]["name"]
            for one in found
            if one["metadata"]["name"].startswith(f"{run}-{index}-")
            and (one.get("status") or {}).get("phase") == "Running"
        ]
        if api is None or not names:
            raise DrillError(f"worker {index} of {run} has no pod that runs")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": names[0]},
            "deleteOptions": {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds},
        }
        api.create(f"{pods}/{names[0]}/eviction", body)

    def machines(self, run: str) -> int:
        """Returns how many nodes of a run its cluster sees; 0 where the cluster is gone too."""
        api = self._account().cluster(self._plan(run))
        return len(nodes_of(api, run)) if api else 0

    def things(self, run: str) -> tuple[str, ...]:
        """Returns what the cloud has of a run."""
        return tuple(f"{one.kind} {one.name}" for one in self._account().things(run))

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def _account(self) -> Cloud:
        if self._cloud is None:
            self._cloud = open_cloud(self._place)
        return self._cloud

    @staticmethod
    def _plan(run: str) -> Plan:
        return plans.read(RUNS / run / plans.FILE_NAME)
