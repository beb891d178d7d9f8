"""How a worker takes part in the rendezvous: as the chief in process, as a follower over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from cloudgan.core.run_secret import RunSecret
from cloudgan.storage.store import StoreError
from cloudgan.worker.control import RejectedError, join_chief
from cloudgan.worker.pod_environment import Peers
from cloudgan.worker.rendezvous import AgentStatus, JoinResponse, Rendezvous
from cloudgan.worker.state import AgentState
from cloudgan.worker.timeouts import Timeouts

_STORE_PAUSE_SECONDS = 5.0


class ChiefRendezvousClient:
    """Client of the worker that holds the rendezvous: worker 0, or one that works without the others."""

    def __init__(
        self,
        state: AgentState,
        rendezvous: Rendezvous,
        before_begin: Callable[[], tuple[str, ...]],
    ) -> None:
        """Calls `before_begin` once before each training; all wait while the store fails.

        It returns the arguments with which each worker starts its ranks; empty: there are none.
        """
        self._state, self._rendezvous, self._before_begin = state, rendezvous, before_begin
        self._is_prepared = False
        self._launch: tuple[str, ...] = ()
        self._not_before_seconds = float("-inf")

    def next_generation(self) -> int | None:
        """Starts a generation when all workers wait; returns its number, None while this worker waits."""
        self.notify()
        now = time.monotonic()
        if not self._rendezvous.all_waiting(now) or now < self._not_before_seconds:
            return None
        if not (self._is_prepared or self._rendezvous.is_smoke_step_due()):
            try:
                self._launch = self._before_begin()
            except StoreError:
                self._not_before_seconds = time.monotonic() + _STORE_PAUSE_SECONDS
                return None
            self._is_prepared = True
        self.notify()
        generation = self._rendezvous.begin(time.monotonic(), self._launch)
        if generation is not None:
            self._is_prepared = False
        return generation

    def restart_reason(self) -> str | None:
        """Returns why the present generation must end: a worker of it waits again; None if it need not."""
        self.notify()
        who = self._rendezvous.waiting_member()
        return None if who is None else f"worker {who} waits for a restart"

    def response(self) -> JoinResponse:
        """Returns the response to the chief's own status, which describes the present generation."""
        found = self._rendezvous.join(0, self._state.status, time.monotonic())
        assert found is not None  # noqa: S101  the chief has begun its generation itself
        return found

    def missing_workers(self) -> tuple[int, ...]:
        """Returns the workers without a recent request."""
        self.notify()
        return self._rendezvous.missing_members(time.monotonic())

    def notify(self) -> None:
        """Updates the chief's own status."""
        self.response()

    def close(self, exit_code: int) -> None:
        """Serves the exit code from now on."""
        self.notify()
        self._rendezvous.exit_code = exit_code


class FollowerRendezvousClient:
    """Client of the other workers: a thread sends their status to the chief every second."""

    def __init__(
        self,
        peers: Peers,
        state: AgentState,
        timeouts: Timeouts,
        secret: RunSecret,
        *,
        say: Callable[[str], None],
    ) -> None:
        """Has the `secret` of the run; reports a chief that rejects them to `say`."""
        self._peers, self._state, self._timeouts = peers, state, timeouts
        self._secret, self._say, self._rejected = secret, say, ""
        self._latest: tuple[AgentStatus | None, JoinResponse] = (None, JoinResponse())
        self._heard_seconds = time.monotonic()
        self._changed = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="join", daemon=True)
        self._thread.start()

    def next_generation(self) -> int | None:
        """Returns the generation that the chief started with this worker; None while it waits."""
        answer = self._present_answer()
        return answer.generation if answer and answer.start else None

    def restart_reason(self) -> str | None:
        """Returns why the present generation must end: the chief says so, or nothing; None if it need not."""
        silent = self._silent_seconds()
        if silent > self._timeouts.chief_timeout_seconds:
            return f"worker 0 did not respond for {silent:.0f} s"
        answer = self._present_answer()
        return "the other workers wait for a restart" if answer and answer.restart else None

    def response(self) -> JoinResponse:
        """Returns the last response."""
        return self._latest[1]

    def missing_workers(self) -> tuple[int, ...]:
        """Returns the chief if it does not respond; the chief knows about the others."""
        return (0,) if self._silent_seconds() > self._timeouts.fresh_seconds else ()

    def notify(self) -> None:
        """Sends the status now."""
        self._changed.set()

    def close(self, exit_code: int) -> None:
        """Stops polling."""
        del exit_code
        self._closed = True
        self._changed.set()

    def _present_answer(self) -> JoinResponse | None:
        """Returns the last response if this worker's status is still the one that it answers."""
        sent, answer = self._latest
        return answer if sent == self._state.status else None

    def _silent_seconds(self) -> float:
        return time.monotonic() - self._heard_seconds

    def _run(self) -> None:
        address = self._peers.control(0)
        while not self._closed:
            status = self._state.status
            pause = self._timeouts.join_every_seconds
            try:
                answer = join_chief(address, self._state.index, status, self._secret)
            except socket.gaierror:
                pause = self._timeouts.resolve_every_seconds  # a starting pod has no DNS name yet
            except RejectedError as error:
                self._report(str(error))
            except (OSError, ValueError):
                pass
            else:
                self._latest, self._heard_seconds = (status, answer), time.monotonic()
            self._changed.wait(pause)
            self._changed.clear()

    def _report(self, reason: str) -> None:
        """Logs why the chief is not heard, once per reason."""
        if reason != self._rejected:
            self._rejected = reason
            host, port = self._peers.control(0)
            self._say(f"worker 0 ({host}:{port}) is not accepted: {reason}")


RendezvousClient = ChiefRendezvousClient | FollowerRendezvousClient
