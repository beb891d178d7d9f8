"""Puts a worker together and lets it run: everything that `cloudgan worker` does in a pod."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

from cloudgan.core.clock import utc_now
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.core.heartbeat import FILE_NAME as HEARTBEAT
from cloudgan.core.pulse import PulseFile
from cloudgan.core.settings import child_environment
from cloudgan.stores import StoreError, open_store
from cloudgan.worker import heart, notices
from cloudgan.worker.background import Background, persistent
from cloudgan.worker.child import Child
from cloudgan.worker.control import ControlServer
from cloudgan.worker.generations import Crew, Generations
from cloudgan.worker.membership import Chief, Follower
from cloudgan.worker.metadata import open_metadata
from cloudgan.worker.notice_watch import NoticeWatch
from cloudgan.worker.peers import Names
from cloudgan.worker.restarts import Restarts
from cloudgan.worker.roster import Roster
from cloudgan.worker.run_copy import RunCopy
from cloudgan.worker.shipping import Shipment, Shipper, file_shipment
from cloudgan.worker.staging import stage
from cloudgan.worker.state import WorkerState
from cloudgan.worker.stop_request import StopRequest
from cloudgan.worker.transcript import SaidProgress, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloudgan.worker.limits import Limits
    from cloudgan.worker.membership import Membership
    from cloudgan.worker.metadata import Notice
    from cloudgan.worker.place import Place

TRAIN = (sys.executable, "-m", "cloudgan", "train")


class Pod:
    """One worker, from its start to its exit code."""

    def __init__(
        self,
        place: Place,
        limits: Limits,
        show: Callable[[str], None],
        *,
        stop: StopRequest | None = None,
        command: Sequence[str] = TRAIN,
    ) -> None:
        """Prepares; `command` gets ``--run=FOLDER`` behind it.

        Raises:
            ConfigError: The store's URL is none that we know.
        """
        self._place, self._limits, self._command = place, limits, command
        self._stop = stop or StopRequest()
        self._store = open_store(place.run_url)
        began = utc_now().replace(":", "").replace("-", "")
        self._state = WorkerState(
            place.peers.index, place.peers.world, f"{began}-{secrets.token_hex(3)}"
        )
        logs = place.work / "logs"
        self._transcript = Transcript(logs / f"{self._state.incarnation}.log", show)
        self._roster = Roster(place.peers.world, fresh_seconds=limits.fresh_seconds)
        self._restarts = Restarts(self._store, limits.most_restarts)
        self._copy = RunCopy(place.folder, self._store)
        self._pulse = PulseFile(place.work / "pulse.json")
        self._is_staged = False
        self._generations: Generations | None = None
        self._watch: NoticeWatch | None = None
        self._noted = 0

    @property
    def state(self) -> WorkerState:
        """What it is doing."""
        return self._state

    def run(self) -> int:
        """Runs to the end; returns the exit code.

        Raises:
            TryAgain: Its control port is taken.
        """
        peers = self._place.peers
        host, port = peers.listening_host(), peers.control(peers.index)[1]
        roster = self._roster if peers.is_chief else None
        try:
            control = ControlServer((host, port), self._state, roster)
        except OSError as error:
            raise TryAgain(f"nobody can listen on port {port} of this machine ({error})") from error
        try:
            return self._live()
        finally:
            control.close()

    def kill(self) -> None:
        """Ends the training process, if there is one, at once."""
        if self._generations:
            self._generations.kill()

    def _live(self) -> int:
        say, state = self._transcript.say, self._state
        say(f"worker {state.index} of {state.world}, {state.incarnation}, run {self._place.run}")
        if self._is_finished():
            say("the run is finished already; there is nothing to do")
            return 0
        shipper = Shipper(self._shipments(), say)
        membership = self._membership()
        self._watch = self._watched(membership)
        self._generations = Generations(
            self._place.peers, state, self._limits, self._crew(membership)
        )
        code = CloudganError.exit_code
        try:
            code = self._generations.run()
        except CloudganError as error:
            code, state.sentence = error.exit_code, str(error)
            say(str(error))
        finally:
            self.kill()
            self._end(code, membership, shipper)
        return code

    def _end(self, code: int, membership: Membership, shipper: Shipper) -> None:
        """Tells the others and the store."""
        state, limits = self._state, self._limits
        state.exit_code = code
        state.sentence = "" if code == 0 else state.sentence
        state.enter("ended")
        membership.close(code)
        self._transcript.say(f"ends with exit code {code}")
        self._note_notices()
        patience = limits.ship_seconds
        if self._stop.asked:
            grace = limits.grace_seconds - limits.child_grace_seconds
            patience = min(patience, grace, self._stop.left_seconds)
        remains = shipper.close(self._last_shipments(), patience_seconds=patience)
        for left in remains:
            self._transcript.say(f"after {patience:.0f} s this is still not in the store: {left}")
        if self._watch:
            self._watch.close()
            if not remains:
                self._watch.acknowledge()

    def _watched(self, membership: Membership) -> NoticeWatch | None:
        """Watches for the notice of the cloud whose machine this is, if it is one's."""
        place, every = self._place, self._limits.notice_every_seconds
        if place.cloud is None:
            return None

        def take(notice: Notice) -> None:
            self._take_notice(notice)
            membership.hurry()

        service = open_metadata(place.cloud, place.metadata_url)
        return NoticeWatch(service, take, self._transcript.say, every_seconds=every)

    def _take_notice(self, notice: Notice) -> None:
        """Stops as SIGTERM does, within the time that the cloud leaves."""
        left = "" if notice.seconds is None else f" in {notice.seconds:.0f} s"
        self._transcript.say(f"{notice.cloud} takes this machine away{left}")
        self._state.take(notice)
        self._stop.ask(notice.seconds)

    def _shipments(self) -> tuple[Shipment, ...]:
        place, limits, store = self._place, self._limits, self._store
        state = self._state
        log = file_shipment(
            store,
            f"logs/{state.index}/{state.incarnation}.log.gz",
            self._transcript.path,
            every_seconds=limits.log_every_seconds,
            packed=True,
        )
        if not place.peers.is_chief:
            return (log,)
        record = file_shipment(
            store,
            place.folder.record_file.name,
            place.folder.record_file,
            every_seconds=limits.record_every_seconds,
        )
        return (record, self._heartbeat(), log)

    def _heartbeat(self) -> Shipment:
        def put() -> None:
            beat = heart.look(self._place, self._state, self._roster.notices())
            self._store.put(HEARTBEAT, (beat.model_dump_json(indent=2) + "\n").encode())

        return Shipment(
            HEARTBEAT,
            lambda: heart.news(self._state, self._roster.notices()),
            put,
            every_seconds=self._limits.heartbeat_every_seconds,
            beats=True,
        )

    def _last_shipments(self) -> tuple[Shipment, ...]:
        """The checkpoints that training itself could not copy."""
        if not self._place.peers.is_chief:
            return ()
        push = self._copy.push_checkpoints
        return (Shipment("checkpoints", lambda: True, push, every_seconds=0.0),)

    def _membership(self) -> Membership:
        peers = self._place.peers
        if peers.is_chief:
            return Chief(self._state, self._roster, self._count_restart)
        return Follower(peers, self._state, self._limits)

    def _crew(self, membership: Membership) -> Crew:
        return Crew(
            membership=membership,
            names=Names(self._place.peers),
            stop=self._stop,
            pulse=self._pulse,
            prepare=self._prepare_beside,
            start=self._start,
            is_finished=self._is_finished,
            say=self._transcript.say,
        )

    def _prepare_beside(self) -> Background:
        limits = self._limits
        prepare = persistent(
            self._prepare,
            patience_seconds=limits.barrier_seconds,
            pause_seconds=limits.store_retry_seconds,
            say=self._transcript.say,
        )
        return Background(prepare, "prepare")

    def _prepare(self) -> None:
        """Brings the showers once and what a generation needs each time."""
        if not self._is_staged:
            stage(self._place, SaidProgress(self._transcript))
            self._is_staged = True
        config = self._place.config
        url = f"{self._place.run_url}/checkpoints"
        checkpoint = config.checkpoint.model_copy(update={"url": url})
        config = config.model_copy(update={"checkpoint": checkpoint})
        if self._place.peers.is_chief:
            self._copy.prepare_chief(config)
            self._note_notices()
        else:
            self._copy.prepare_follower(config)

    def _note_notices(self) -> None:
        """Into the record, while no training writes it; each once, those of other workers too."""
        told = self._roster.all_notices() if self._place.peers.is_chief else ()
        for index, notice in told[self._noted :]:
            notices.note(self._place.folder.record_file, index, notice)
        self._noted = len(told)

    def _count_restart(self) -> None:
        try:
            self._state.restarts = self._restarts.begin(self._copy.newest_step())
        except StoreError as error:
            self._transcript.say(f"all are here, but the store failed: {error}; tried again")
            raise

    def _is_finished(self) -> bool:
        try:
            return heart.is_finished(self._store, self._place)
        except StoreError as error:
            self._transcript.say(f"whether the run is finished already is not known: {error}")
            return False

    def _start(self) -> Child:
        environment = child_environment(
            TF_CONFIG=self._place.peers.tf_config(),
            CLOUDGAN_SUPERVISED="1",
            CLOUDGAN_PULSE=str(self._place.work / "pulse.json"),
        )
        command = (*self._command, f"--run={self._place.folder.path}")
        return Child(command, environment, self._transcript)
