"""Preemption notices: reads them from the cloud's metadata service and adds them to the record.

Plain HTTP without proxies, because the addresses exist on the node only. Each cloud is a generator that asks
once per step and keeps its token, tag or name between the steps; its row of `core.clouds` names it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from pydantic import Field

from cloudgan.core.clock import utc_moment, utc_now
from cloudgan.core.clouds import find, load
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import DataError, TryAgain
from cloudgan.schema import record

_MOST_BYTES: Final = 65536
_PATIENCE_SECONDS: Final = 5.0


class PreemptionNotice(NamedTuple):
    """Announcement that this node will end.

    `seconds` is the time to the end when it was read; None: unknown. `event` is the ID for the
    acknowledgement; empty if the cloud has none.
    """

    cloud: Annotated[str, Field(pattern=r"^[a-z]{1,16}$")]
    seconds: float | None
    event: str = ""


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str
    path: str

    def unexpected(self) -> ValueError:
        return ValueError(f"{self.path} returned {self.status} {self.body.strip()[:80]!r}")

    def mapping(self) -> dict[str, Any]:
        try:
            found = parse_json(self.body, "answer", any_text=True)
        except DataError as error:
            raise ValueError(str(error)) from error
        if not isinstance(found, dict):
            raise ValueError(f"expected a JSON object, not {self.body.strip()[:80]!r}")  # noqa: TRY004  foreign
        return found


def _ask(
    url: str,
    path: str,
    headers: Mapping[str, str],
    *,
    method: str = "GET",
    body: str | None = None,
    patience_seconds: float = _PATIENCE_SECONDS,
    expected: Collection[int] = (HTTPStatus.OK,),
) -> _Answer:
    """Sends one request."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = http.client.HTTPConnection(host, parts.port or 80, timeout=patience_seconds)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        text = answer.read(_MOST_BYTES).decode(errors="replace")
    except http.client.HTTPException as error:
        raise ValueError(f"{host} does not speak HTTP: {error}") from error
    finally:
        connection.close()
    found = _Answer(answer.status, named, text, f"{host}{path.partition('?')[0]}")
    if answer.status not in expected:
        raise found.unexpected()
    return found


Ask = Callable[..., _Answer]
"""`_ask` with the URL of a service."""
Notices = Iterator[PreemptionNotice | None]


def google_notices(ask: Ask, *, wait_seconds: int = 60) -> Notices:
    """Compute Engine and Cloud TPU: ``instance/preempted`` changes from FALSE to TRUE, 30 s before the end.

    The first request is answered at once; ``wait_for_change`` keeps the later ones open until a change, at most
    `wait_seconds`. https://cloud.google.com/compute/docs/instances/create-use-spot and
    https://cloud.google.com/compute/docs/metadata/querying-metadata (2026-11-21). Not verified: whether the GKE
    metadata server, which serves pods, has this path. If not, the watcher logs it once, and the kubelet sends
    SIGTERM.
    """
    query, patience = "", _PATIENCE_SECONDS
    while True:
        answer = ask(
            f"/computeMetadata/v1/instance/preempted{query}",
            {"Metadata-Flavor": "Google"},
            patience_seconds=patience,
        )
        said = answer.body.strip().upper()
        if said not in {"TRUE", "FALSE"}:
            raise answer.unexpected()
        tag = quote(answer.headers.get("etag", ""))
        wait = f"?wait_for_change=true&last_etag={tag}&timeout_sec={wait_seconds}"
        query, patience = (
            (wait, _PATIENCE_SECONDS + wait_seconds) if tag else ("", _PATIENCE_SECONDS)
        )
        yield PreemptionNotice("gcp", 30.0) if said == "TRUE" else None


def aws_notices(ask: Ask) -> Notices:
    """EC2: ``spot/instance-action`` is missing (404) until two minutes before the end.

    IMDSv2, with a session token; from a pod it needs a hop limit of 2.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html (2026-11-21)
    """
    path, token = "/latest/meta-data/spot/instance-action", ""
    none_or_expired = (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED)
    while True:
        if is_new := not token:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
            answer = ask("/latest/api/token", headers, method="PUT")
            token = answer.body.strip()
            if not (token and token.isprintable()):
                raise answer.unexpected()
        answer = ask(path, {"X-aws-ec2-metadata-token": token}, expected=none_or_expired)
        if answer.status == HTTPStatus.UNAUTHORIZED and not is_new:
            token = ""
            continue
        if answer.status == HTTPStatus.NOT_FOUND:
            yield None
            continue
        found = answer.mapping() if answer.status == HTTPStatus.OK else {}
        if found.get("action") not in {"terminate", "stop", "hibernate"}:
            raise answer.unexpected()
        yield PreemptionNotice("aws", _seconds_until(found.get("time")))


_AZURE_HEADERS: Final = {"Metadata": "true"}
_AZURE_EVENTS: Final = "/metadata/scheduledevents?api-version=2020-07-01"


def azure_notices(ask: Ask) -> Notices:
    """Azure: ``scheduledevents`` lists a Preempt event at least 30 s ahead.

    All nodes of a scale set see it, so it counts only if it names this one. The first response may take two
    minutes. https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (2026-11-21)
    """
    answer = ask(
        "/metadata/instance/compute/name?api-version=2021-02-01&format=text", _AZURE_HEADERS
    )
    if not (name := answer.body.strip().lower()):
        raise answer.unexpected()
    patience = 150.0
    while True:
        answer = ask(_AZURE_EVENTS, _AZURE_HEADERS, patience_seconds=patience)
        patience = 10.0
        events = answer.mapping().get("Events")
        if not isinstance(events, list):
            raise answer.unexpected()
        found = None
        for event in events:
            names = event.get("Resources") if isinstance(event, dict) else None
            is_ours = isinstance(names, list) and name in [str(one).lower() for one in names]
            if is_ours and event.get("EventType") == "Preempt" and found is None:
                left, known_as = _seconds_until(event.get("NotBefore")), event.get("EventId")
                found = PreemptionNotice("azure", left, str(known_as or ""))
        yield found


def acknowledge_to_azure(ask: Ask, notice: PreemptionNotice) -> None:
    """Starts the event, so that the cloud may end the node at once; the other clouds accept no answer."""
    body = json.dumps({"StartRequests": [{"EventId": notice.event}]})
    headers = {**_AZURE_HEADERS, "Content-Type": "application/json"}
    ask(_AZURE_EVENTS, headers, method="POST", body=body)


class _Service(NamedTuple):
    """How a cloud announces the end of a node.

    An exception ends the generator of notices; the interval is the one that the cloud recommends;
    `acknowledge` sends that the node may end, None: the cloud does not ask.
    """

    notices: Callable[[Ask], Notices]
    every_seconds: float
    acknowledge: Callable[[Ask, PreemptionNotice], None] | None = None


GOOGLE: Final = _Service(google_notices, every_seconds=1.0)
AWS: Final = _Service(aws_notices, every_seconds=5.0)
AZURE: Final = _Service(azure_notices, every_seconds=1.0, acknowledge=acknowledge_to_azure)


class MetadataService:
    """Metadata service of a cloud's nodes, at `url` or at its address of `core.clouds`."""

    def __init__(self, cloud: str, url: str | None = None) -> None:
        self._ask: Ask = partial(_ask, url or find(cloud).metadata_url)
        self._service: _Service = load(cloud, find(cloud).metadata_service)
        self.every_seconds = self._service.every_seconds
        self._notices: Notices = self._service.notices(self._ask)

    def read_notice(self) -> PreemptionNotice | None:
        """Returns the notice; None if there is none.

        Raises:
            OSError: The service does not respond.
            ValueError: The response is not from this service.
        """
        try:
            return next(self._notices)
        except (OSError, ValueError):
            self._notices = self._service.notices(self._ask)
            raise

    def acknowledge(self, notice: PreemptionNotice) -> None:
        """Acknowledges a notice, where the cloud asks for it; raises like `read_notice`."""
        if self._service.acknowledge and notice.event:
            self._service.acknowledge(self._ask, notice)


def _seconds_until(moment: object) -> float | None:
    """Returns the seconds until an ISO 8601 or HTTP time; None if it is neither."""
    text = str(moment or "")
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(ValueError):
            found = parse(text)
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
            return max(0.0, (found - utc_moment()).total_seconds())
    return None


_LONGEST_PAUSE_SECONDS = 60.0


class PreemptionWatcher:
    """A thread that polls until there is a notice; an unreachable service is logged once."""

    def __init__(
        self,
        service: MetadataService,
        on_notice: Callable[[PreemptionNotice], None],
        say: Callable[[str], None],
        *,
        every_seconds: float | None = None,
    ) -> None:
        """Starts it; `on_notice` is called at most once; `every_seconds` defaults to the service's."""
        self._every_seconds = service.every_seconds if every_seconds is None else every_seconds
        self._service, self._on_notice, self._say = service, on_notice, say
        self._closed = threading.Event()
        self._notice: PreemptionNotice | None = None
        self._thread = threading.Thread(target=self._run, name="notice", daemon=True)
        self._thread.start()

    def acknowledge(self) -> None:
        """Acknowledges the notice, if there was one."""
        if self._notice is None:
            return
        try:
            self._service.acknowledge(self._notice)
        except (OSError, ValueError) as error:
            self._say(f"the notice could not be acknowledged: {error}")

    def close(self) -> None:
        """Stops polling."""
        self._closed.set()

    def _run(self) -> None:
        pause, is_reported = self._every_seconds, False
        while not self._closed.is_set():
            try:
                notice = self._service.read_notice()
            except (OSError, ValueError) as error:
                if not is_reported:
                    self._say(
                        f"the metadata service gives no preemption notices ({error}); retrying,"
                        " and SIGTERM is handled in any case"
                    )
                is_reported = True
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = self._every_seconds
                if notice is not None:
                    self._notice = notice
                    self._on_notice(notice)
                    return
            self._closed.wait(pause)


def record_notice(path: Path, worker: int, notice: PreemptionNotice) -> None:
    """Adds a preemption notice to the record, while no trainer writes to it.

    A missing or unreadable record gets no line.
    """
    with contextlib.suppress(DataError, OSError):
        lines = record.read(path).lines
        step = lines[-1].step if lines else 0
        values = {"worker": worker, "cloud": notice.cloud, "seconds": notice.seconds}
        record.append(path, record.PreemptionNotice(time=utc_now(), step=step, **values))


class StopRequest:
    """A stop request by SIGTERM, Ctrl-C or a preemption notice; a second signal kills the worker.

    A notice does not count as a signal: the SIGTERM after it is the first one.
    """

    def __init__(self) -> None:
        self.requested = False
        self._was_signalled = False
        self._ends_seconds = float("inf")
        self._at_once: Callable[[], None] = lambda: None

    def request(self, within_seconds: float | None = None) -> None:
        """Requests a stop; `within_seconds` is the time until the node ends, if known."""
        if within_seconds is not None:
            self._ends_seconds = time.monotonic() + within_seconds
        self.requested = True

    @property
    def remaining_seconds(self) -> float:
        """Time until the node ends, as announced; infinity without an announcement."""
        return max(0.0, self._ends_seconds - time.monotonic())

    def install_signal_handlers(self, at_once: Callable[[], None]) -> None:
        """Installs the handlers; a second signal calls `at_once` and ends the process."""
        self._at_once = at_once
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._was_signalled:
            self._at_once()
            os._exit(TryAgain.exit_code)
        self._was_signalled = True
        self.request()
