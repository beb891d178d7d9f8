"""`TpuVmBackend`: state, logs and end of a run on Cloud TPU VMs, without Kubernetes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.documents import parse_model
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import CloudganError, ConfigError, LaunchError
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.launch.backends.tpu_vm.requests import (
    DEADLINE,
    SECRET,
    STOP_FILE,
    full_name,
    put_secret,
    steps,
)
from cloudgan.launch.backends.tpu_vm.state import (
    VmStatus,
    current_status,
    run_state,
    was_preempted,
)
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.gcp.kinds import QUEUED, TPU_VM, node_spec
from cloudgan.launch.clouds.rows import Body
from cloudgan.schema.heartbeat import FILE_NAME as HEARTBEAT
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState
from cloudgan.storage.run_logs import list_run_logs, read_run_log
from cloudgan.storage.store import Store

_POLL_SECONDS: Final = 5.0
_GONE_SECONDS: Final = 900.0
_EXTRA_GRACE_SECONDS: Final = 90.0
"""Time for the VM to read the stop file and for the worker's last uploads."""
_LEAST_SECONDS: Final = 300


_Read = TypeVar("_Read", VmStatus, Heartbeat)


class TpuVmBackend(JobBackend):
    """One run on a TPU slice, which the caller creates and deletes; its plan has no placeholders."""

    def __init__(
        self,
        cloud: CloudClient,
        store: Store,
        plan: Plan,
        *,
        say: Callable[[str], None] = lambda _: None,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._cloud, self._store, self._plan = cloud, store, plan
        self._say, self._poll_seconds = say, poll_seconds
        self._name = full_name(plan)
        self._status_name = f"{self._name.rpartition('/')[2]}.json"
        self._replaced = 0

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the request for the queued resource."""
        return steps(plan)

    def desired_state(self, run: str) -> Plan | None:
        """Returns the plan."""
        return self._plan if run == self._plan.run else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Does nothing: the cloud client creates the TPU."""
        del step, plan
        return False

    def state(self, run: str) -> RunState:
        """Returns the state from the queued resource, the VM's status and the heartbeat."""
        del run
        queued, beat = self._queued(), self._read(HEARTBEAT, Heartbeat)
        return run_state(queued, self._status(), beat, replaced=self._replaced)

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when the state changes, after `seconds` at the latest.

        Replaces a preempted TPU, since no controller does, and its queued resource counts against
        the quota until deleted.
        """
        if not self._replace_preempted():
            super().wait_for_change(run, seconds)

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns iterators over the uploaded log lines of the worker of each VM; True follows them."""
        pool = self._plan.node_pool
        hosts = range(pool.hosts if pool else 1)
        return {f"worker-{host}": partial(self._lines, run, host) for host in hosts}

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Refuses: a TPU VM is reached by SSH only, for which cloudgan creates no keys and no firewall rule."""
        del worker, command, streams
        raise ConfigError(
            f"run {run} is on a TPU VM, which accepts commands by SSH only, and cloudgan opens no SSH"
            f" access; `cloudgan logs {run}` has its output. With your own access: gcloud compute tpus"
            f" tpu-vm ssh {self._name} --zone={self._plan.target.zone}"
        )

    def stop(self, run: str) -> None:
        """Requests a checkpoint by a stop file in the store, then deletes the TPU."""
        queued = self._queued()
        if queued is None:
            return
        status = current_status(self._status(), queued)
        if QUEUED.resource(self._name, queued).state == "ready" and (
            status is None or status.phase != "ended"
        ):
            self._store.put(self._in_store(STOP_FILE), b"")
            end = monotonic_seconds() + self._plan.workers.grace_seconds + _EXTRA_GRACE_SECONDS
            while monotonic_seconds() < end and not self.state(run).is_over:
                time.sleep(self._poll_seconds)
        self._delete()
        self._forget()

    def destroy(self, run: str) -> Iterator[str]:
        """Deletes the TPU by name, in case Google lists it without labels."""
        queued = self._queued()
        if queued is not None and QUEUED.resource(self._name, queued).run in (None, run):
            self._delete()
            yield f"{QUEUED.name} {self._name}"
        self._forget()

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the slice as one node."""
        del run
        spec = node_spec(self._queued() or {})
        name = f"{spec['parent']}/nodes/{spec['nodeId']}" if spec else ""
        node = self._cloud.transport.get(TPU_VM, name) if name else None
        return (Node(name=node["name"], started_at=node.get("createTime")),) if node else ()

    def list_runs(self) -> tuple[str, ...]:
        """Returns the name of this run."""
        return (self._plan.run,)

    def _replace_preempted(self) -> bool:
        """Requests a preempted TPU again; returns whether it did."""
        queued, status = self._queued(), self._status()
        status = current_status(status, queued)
        if not was_preempted(queued, status):
            return False
        left = self._seconds_left(queued, status)
        if left < _LEAST_SECONDS:
            self._delete()
            self._store.delete(self._in_store(self._status_name))  # a new attempt must not read it
            raise LaunchError(
                f"Google preempted the TPU of run {self._plan.run}, and only {max(0, left):.0f} s"
                f" remain until the job's deadline; its checkpoints are in {self._store.url}. Rerun"
                f" the command to start a new attempt within the budget"
            )
        self._say(
            f"Google preempted the TPU; requesting it again for the remaining {left / HOUR_SECONDS:.1f} h"
        )
        self._delete()
        put_secret(self._plan, self._store)
        (request,) = steps(self._plan)  # not that of the stored plan, which others may change
        body: Any = copy.deepcopy(request.body)
        body["tpu"]["nodeSpec"][0]["node"]["metadata"][DEADLINE] = str(int(left))
        self._cloud.create(request.model_copy(update={"body": body}))
        self._replaced += 1
        return True

    def _seconds_left(self, queued: Body | None, status: VmStatus | None) -> float:
        """Returns the remaining time until the job's deadline."""
        limit = given = self._plan.limits.deadline_seconds
        if status:
            given = min(limit, status.deadline_seconds)
        if queued is not None and status is None:
            (spec,) = queued["tpu"]["nodeSpec"]
            given = min(limit, int(spec["node"].get("metadata", {}).get(DEADLINE, given)))
        return given - (utc_moment().timestamp() - status.booted_at if status else 0.0)

    def _queued(self) -> Body | None:
        """Google's description of the queued resource; None if absent."""
        return self._cloud.transport.get(QUEUED, self._name)

    def _delete(self) -> None:
        """Deletes the queued resource and waits until it is gone; a refusal may pass."""
        queued = self._queued()
        if queued is None:
            return
        engine = Engine(self._cloud, self._say, self._poll_seconds, _GONE_SECONDS)
        left: list[str] = []
        list(engine.destroy([QUEUED.resource(self._name, queued)], left))
        if left:
            raise LaunchError(f"{left[0]}; type: cloudgan down {self._plan.run}")

    def _lines(self, run: str, worker: int, follow: bool) -> Iterator[LogLine]:
        seen: dict[str, int] = {}
        while True:
            is_last = not follow or self.state(run).is_over
            for log in list_run_logs(self._store, self._plan.run):
                if log.worker != worker:
                    continue
                name, lines = log.name, list(read_run_log(self._store, log.name))
                yield from (LogLine.stamped(worker, line) for line in lines[seen.get(name, 0) :])
                seen[name] = len(lines)
            if is_last:
                return
            time.sleep(self._poll_seconds)

    def _status(self) -> VmStatus | None:
        return self._read(self._status_name, VmStatus)

    def _read(self, name: str, model: type[_Read]) -> _Read | None:
        """Returns a document of the VM or its worker; None without one."""
        try:
            return parse_model(self._store.read(self._in_store(name)), model, name)
        except CloudganError:
            return None

    def _forget(self) -> None:
        """Deletes what only running VMs read."""
        for name in (STOP_FILE, SECRET):
            self._store.delete(self._in_store(name))

    def _in_store(self, name: str) -> str:
        return f"runs/{self._plan.run}/{name}"
