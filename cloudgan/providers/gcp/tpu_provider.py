"""Runs on machines of Cloud TPU, without Kubernetes: their state, logs and end."""

from __future__ import annotations

import copy
import gzip
import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.errors import CloudganError, LaunchError
from cloudgan.core.heartbeat import FILE_NAME as HEARTBEAT
from cloudgan.core.heartbeat import Heartbeat
from cloudgan.core.launch import Node
from cloudgan.core.run_state import LogLine
from cloudgan.providers.gcp.tpu_note import Note
from cloudgan.providers.gcp.tpu_requests import DEADLINE, KIND, STOP_FILE, full_name, steps
from cloudgan.providers.gcp.tpu_state import of_this, run_state, was_preempted
from cloudgan.providers.gcp.tpu_things import queued_thing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.run_state import RunState
    from cloudgan.providers.gcp.tpu_vms import TpuVms
    from cloudgan.stores import Store

_POLL_SECONDS: Final = 5.0
_GONE_SECONDS: Final = 900.0
_BESIDE_GRACE_SECONDS: Final = 90.0
"""For a machine to see the stop file, and for the worker's last files."""
_LEAST_SECONDS: Final = 300


class TpuProvider:
    """One run whose machines are a slice of TPUs; it lives where its plan says.

    Args:
        queue: What Cloud TPU has of the project.
        store: Of the run.
        plan: With all placeholders filled.
        say: Is told what happens.
        poll_seconds: Between two looks.
    """

    def __init__(
        self,
        queue: TpuVms,
        store: Store,
        plan: Plan,
        *,
        say: Callable[[str], None] = lambda _: None,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._queue, self._store, self._plan = queue, store, plan
        self._say, self._poll_seconds = say, poll_seconds
        self._name = full_name(plan)
        self._note_name = f"{self._name.rpartition('/')[2]}.json"
        self._replaced = 0

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Returns nothing: the cloud is asked."""
        del plan
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the request for the machines."""
        return steps(plan)

    def intent(self, run: str) -> Plan | None:
        """Returns the plan."""
        return self._plan if run == self._plan.run else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Does nothing: the cloud makes machines."""
        del step, plan
        return False

    def mark(self, run: str, state: str) -> None:
        """What is wanted of the run stands in its intent."""

    def state(self, run: str) -> RunState:
        """Returns how the run is doing, by the queue, its machine's note and its heartbeat."""
        del run
        resource = self._queue.resource(self._name)
        return run_state(resource, self._note(), self._beat(), replaced=self._replaced)

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when something changed, at the latest in `seconds`.

        Machines that Google took back are asked for again: no controller would do it, and what is
        left of them counts against the quota until it is deleted.
        """
        if self._ask_again():
            return
        before, end = self.state(run), monotonic_seconds() + seconds
        while monotonic_seconds() < end:
            time.sleep(min(self._poll_seconds, max(0.0, end - monotonic_seconds())))
            if self.state(run) != before:
                return

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns what yields the lines that the worker stored so far; True follows them."""
        return {"worker-0": lambda follow: self._lines(run, follow=follow)}

    def stop(self, run: str) -> None:
        """Lets the worker save, by a stop file in the store; then deletes the machines.

        Raises:
            LaunchError: They do not go away.
        """
        resource = self._queue.resource(self._name)
        if resource is None:
            return
        note = of_this(self._note(), resource)
        if queued_thing(resource).state == "ready" and (note is None or note.phase != "ended"):
            self._store.put(self._in_store(STOP_FILE), b"")
            self._wait_for_end(run)
        self._delete()
        self._store.delete(self._in_store(STOP_FILE))

    def release(self, run: str, state: str) -> Iterator[str]:
        """Yields nothing: what the cloud lists is removed by whoever asks."""
        del run, state
        yield from ()

    def remove(self, run: str) -> Iterator[str]:
        """Deletes the machines by their name, in case that Google lists them without labels."""
        resource = self._queue.resource(self._name)
        if resource is not None and queued_thing(resource).run in (None, run):
            self._delete()
            yield f"{KIND} {self._name}"
        self._store.delete(self._in_store(STOP_FILE))

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the slice, up since it was made."""
        del run
        resource = self._queue.resource(self._name)
        node = self._queue.node(resource) if resource else None
        return (Node(name=node["name"], up=node.get("createTime")),) if node else ()

    def runs(self) -> tuple[str, ...]:
        """Returns the one run that this is."""
        return (self._plan.run,)

    def _ask_again(self) -> bool:
        """Asks for machines anew where they were taken back; whether it did."""
        resource, note = self._queue.resource(self._name), self._note()
        note = of_this(note, resource)
        if not was_preempted(resource, note):
            return False
        left = self._seconds_left(resource, note)
        if left < _LEAST_SECONDS:
            self._delete()
            self._store.delete(self._in_store(self._note_name))  # it would be the next one's too
            raise LaunchError(
                f"Google took the TPU of run {self._plan.run} back, and of the job's time only"
                f" {max(0, left):.0f} s are left; what was saved is in {self._store.url}. The same"
                f" command begins anew with what the budget allows"
            )
        self._say(f"Google took the TPU back; it is asked for again, for {left / 3600:.1f} h more")
        self._delete()
        self._queue.create(_with_deadline(self._plan.steps[-1], int(left)))
        self._replaced += 1
        return True

    def _seconds_left(self, resource: dict[str, Any] | None, note: Note | None) -> float:
        """Of the job's time: what its last machines had, without what they ran."""
        given = note.deadline_seconds if note else self._plan.limits.deadline_seconds
        if resource is not None and note is None:
            (spec,) = resource["tpu"]["nodeSpec"]
            given = int(spec["node"].get("metadata", {}).get(DEADLINE, given))
        return given - (utc_moment().timestamp() - note.began if note else 0.0)

    def _delete(self) -> None:
        """Deletes the queued resource and waits until it is gone; a refusal may pass."""
        began, told = monotonic_seconds(), False
        while (resource := self._queue.resource(self._name)) is not None:
            thing = queued_thing(resource)
            late = monotonic_seconds() - began > _GONE_SECONDS
            try:
                if thing.state != "leaving":
                    self._queue.delete(thing)
            except LaunchError as error:
                if late:
                    raise
                if not told:
                    told = True
                    self._say(f"{thing.kind} {thing.name} cannot go yet: {error}")
            if late:
                raise LaunchError(
                    f"{thing.kind} {thing.name} does not go away; cloudgan down {self._plan.run}"
                )
            time.sleep(self._poll_seconds)

    def _wait_for_end(self, run: str) -> None:
        limit = self._plan.workers.grace_seconds + _BESIDE_GRACE_SECONDS
        end = monotonic_seconds() + limit
        while monotonic_seconds() < end and not self.state(run).is_over:
            time.sleep(self._poll_seconds)

    def _lines(self, run: str, *, follow: bool) -> Iterator[LogLine]:
        seen: dict[str, int] = {}
        while True:
            is_last = not follow or self.state(run).is_over
            for name in self._logs():
                text = gzip.decompress(self._store.read(name)).decode(errors="replace")
                lines = text.splitlines()
                yield from (LogLine(0, "", line) for line in lines[seen.get(name, 0) :])
                seen[name] = len(lines)
            if is_last:
                return
            time.sleep(self._poll_seconds)

    def _logs(self) -> tuple[str, ...]:
        found = self._store.list(self._in_store("logs/0/"))
        return tuple(name for name in found if name.endswith(".gz"))

    def _note(self) -> Note | None:
        try:
            return Note.model_validate_json(self._store.read(self._in_store(self._note_name)))
        except (CloudganError, ValidationError):
            return None

    def _beat(self) -> Heartbeat | None:
        try:
            return Heartbeat.model_validate_json(self._store.read(self._in_store(HEARTBEAT)))
        except (CloudganError, ValidationError):
            return None

    def _in_store(self, name: str) -> str:
        return f"runs/{self._plan.run}/{name}"


def _with_deadline(step: Step, seconds: int) -> Step:
    """Returns the request for machines with another time that they have."""
    body: Any = copy.deepcopy(step.body)
    body["tpu"]["nodeSpec"][0]["node"]["metadata"][DEADLINE] = str(seconds)
    return step.model_copy(update={"body": body})
