"""The life of a worker: wait for all, train with all, and again where somebody was lost.

A generation is one training of all workers together. Whoever's training ends without being done
waits for the next generation, in the same pod: no new machine, no new image, no new download.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.pulse import PulseFile
    from cloudgan.worker.background import Background
    from cloudgan.worker.child import Child
    from cloudgan.worker.limits import Limits
    from cloudgan.worker.membership import Membership
    from cloudgan.worker.peers import Names, Peers
    from cloudgan.worker.state import WorkerState
    from cloudgan.worker.stop_request import StopRequest

_FINISHED, _AGAIN = 0, TryAgain.exit_code
_FAULT = CloudganError.exit_code


class Crew(NamedTuple):
    """What works for the generations.

    Attributes:
        prepare: Starts what has to be done before this worker can wait, beside us.
        start: Starts the training process.
        is_finished: Asks the store whether the run has ended well.
    """

    membership: Membership
    names: Names
    stop: StopRequest
    pulse: PulseFile
    prepare: Callable[[], Background]
    start: Callable[[], Child]
    is_finished: Callable[[], bool]
    say: Callable[[str], None]


class Generations:
    """One worker's way through them."""

    def __init__(self, peers: Peers, state: WorkerState, limits: Limits, crew: Crew) -> None:
        self._peers, self._state, self._limits, self._crew = peers, state, limits, crew
        self._child: Child | None = None

    def run(self) -> int:
        """Trains to the end; returns the exit code of this worker.

        Raises:
            TryAgain: Not all workers came, or the store failed for too long.
            CloudganError: The run cannot go on.
        """
        while True:
            generation = self._gather()
            if generation is None:
                return _FINISHED
            self._state.enter("training", generation)
            code = self._train(generation)
            if self._crew.stop.asked and (code < 0 or code == _AGAIN):
                return _AGAIN
            if code >= 0 and code != _AGAIN and not (code == _FAULT and self._others_wait()):
                return code
            self._state.enter("staging")

    def _others_wait(self) -> bool:
        """Whether somebody else was lost as well: then our fault is a consequence of theirs."""
        deadline = time.monotonic() + self._limits.fresh_seconds
        while self._peers.world > 1 and time.monotonic() < deadline:
            if why := self._crew.membership.why_regroup():
                self._crew.say(f"{why}, so this is taken for a consequence")
                return True
            time.sleep(self._limits.poll_seconds)
        return False

    def kill(self) -> None:
        """Ends the training process, if there is one, at once."""
        if self._child:
            self._child.kill()

    def _gather(self) -> int | None:
        """Waits for all; returns the generation to begin, or None where the run is over."""
        crew, limits = self._crew, self._limits
        prepared = crew.prepare()
        crew.names.forget()
        all_there = asked_store = time.monotonic()
        unresolved: tuple[int, ...] = tuple(range(self._peers.world))
        asked_names = float("-inf")
        while True:
            if crew.stop.asked:
                raise TryAgain(
                    "told to stop while it waited; the run goes on when it is started again"
                )
            now = time.monotonic()
            if unresolved and now - asked_names >= limits.resolve_every_seconds:
                unresolved, asked_names = crew.names.unresolved(), now
            self._state.enter("waiting" if prepared.is_done() and not unresolved else "staging")
            generation = crew.membership.go()
            if generation is not None:
                return generation
            self._state.missing = crew.membership.missing()
            if crew.membership.is_over():
                return None
            if not (self._state.missing or unresolved):
                all_there = now
            elif now - all_there > limits.barrier_seconds:
                raise TryAgain(self._who_is_missing(unresolved))
            if self._state.missing == (0,) and now - asked_store > limits.silence_seconds:
                asked_store = now
                if crew.is_finished():
                    return None
            time.sleep(limits.poll_seconds)

    def _who_is_missing(self, unresolved: tuple[int, ...]) -> str:
        told = []
        for index in sorted({*self._state.missing, *unresolved}):
            host, port = self._peers.control(index)
            why = "its name does not resolve" if index in unresolved else "it did not answer"
            told.append(f"worker {index} ({host}:{port}): {why}")
        return (
            f"not all of {self._peers.world} workers came within"
            f" {self._limits.barrier_seconds:.0f} s: {'; '.join(told)}"
        )

    def _train(self, generation: int) -> int:
        """Starts the training process and follows it to its end; returns its exit code."""
        crew = self._crew
        crew.say(f"generation {generation}: training begins with {self._peers.world} workers")
        crew.pulse.forget()
        self._child = child = crew.start()
        try:
            self._follow(child)
        finally:
            child.close()
            self._child = None
        code = child.poll() or 0
        self._note_end(child, code)
        return code

    def _follow(self, child: Child) -> None:
        """Returns when it has ended, or has to be killed."""
        crew, limits = self._crew, self._limits
        watchdog = Watchdog(limits, time.monotonic())
        kill_at: float | None = None
        told_child = False
        while child.poll() is None:
            now = time.monotonic()
            watchdog.heard(child.lines, now)
            if pulse := crew.pulse.read():
                self._state.pulse = pulse
                watchdog.saw(pulse.step, now)
            self._state.missing = crew.membership.missing()
            if crew.stop.asked and not told_child:
                told_child = True
                left = min(limits.grace_seconds, crew.stop.left_seconds)
                kill_at = now + limits.child_share_seconds(left)
                child.ask_to_stop(stepped=pulse is not None)
            if kill_at is None and (why := crew.membership.why_regroup()):
                crew.say(f"{why}; the training here ends within {limits.end_seconds:.0f} s")
                kill_at = now + limits.end_seconds
            if kill_at is not None and now > kill_at:
                return
            if watchdog.is_late(now):
                self._dump(child, watchdog.limit_seconds)
                return
            time.sleep(limits.poll_seconds)

    def _dump(self, child: Child, limit_seconds: float) -> None:
        self._crew.say(
            f"no step was finished for {limit_seconds:.0f} s; where every thread is follows, then"
            " the training process is killed and started again"
        )
        child.dump_stacks()
        time.sleep(self._limits.dump_seconds)

    def _note_end(self, child: Child, code: int) -> None:
        if code == _FINISHED:
            return
        if child.was_killed:
            said = "the training process did not end in time and was killed"
        elif code < 0:
            said = f"the training process ended by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                said += " (if nobody killed it, its memory was too small)"
        else:
            said = child.last_words or f"the training process ended with exit code {code}"
        self._state.sentence = said
        self._crew.say(said)
