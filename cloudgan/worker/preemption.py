"""Preemption notices: reads them from the cloud's metadata service and adds them to the record.

Plain HTTP without proxies, because the addresses exist on the node only. Sources:


- Google Cloud: ``instance/preempted`` changes from FALSE to TRUE; ``wait_for_change`` keeps the
  request open until then. The node ends 30 s later.
  https://cloud.google.com/compute/docs/instances/create-use-spot and
  https://cloud.google.com/compute/docs/metadata/querying-metadata (2026-11-21). Not verified: whether
  the GKE metadata server, which serves pods, has this path. If not, the watcher logs it once, and
  the kubelet sends SIGTERM.
- AWS: ``spot/instance-action`` is missing (404) until two minutes before the end; polled every 5 s
  with a session token.
  https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
  (2026-11-21)
- Azure: ``scheduledevents`` lists a Preempt event at least 30 s ahead; polled every second. All
  nodes of a scale set see it, so it counts only if it names this one. The first response may take
  two minutes. https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (2026-11-21)
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from cloudgan.core.clock import utc_moment, utc_now
from cloudgan.core.clouds import CLOUDS, find, load
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import DataError, TryAgain
from cloudgan.schema import record

_MOST_BYTES = 65536


class PreemptionNotice(NamedTuple):
    """Announcement that this node will end.

    Attributes:
        cloud: The cloud that sent it.
        seconds: Time to the end when it was read; None: unknown.
        event: ID for the acknowledgement; empty if the cloud has none.
    """

    cloud: str
    seconds: float | None
    event: str = ""


class MetadataService(Protocol):
    """Metadata service of a cloud's nodes.

    Attributes:
        every_seconds: Polling interval that the cloud recommends.
    """

    every_seconds: float

    def read_notice(self) -> PreemptionNotice | None:
        """Returns the notice; None if there is none.

        Raises:
            OSError: The service does not respond.
            ValueError: The response is not from this service.
        """

    def acknowledge(self, notice: PreemptionNotice) -> None:
        """Acknowledges a notice, so that the cloud may end the node at once.

        Raises:
            OSError: The service does not respond.
            ValueError: The response is not from this service.
        """


class _HttpResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


class _Endpoint:
    """HTTP endpoint of a service."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    def request(
        self,
        path: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        body: str | None = None,
        patience_seconds: float = 5.0,
    ) -> _HttpResponse:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=patience_seconds)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            text = answer.read(_MOST_BYTES).decode(errors="replace")
            return _HttpResponse(answer.status, found, text)
        except http.client.HTTPException as error:
            raise ValueError(f"{self._host} does not speak HTTP: {error}") from error
        finally:
            connection.close()

    def unexpected(self, path: str, answer: _HttpResponse) -> ValueError:
        """Returns the exception for an unexpected response."""
        content = answer.body.strip()[:80]
        return ValueError(f"{self._host}{path} returned {answer.status} {content!r}")


class GoogleMetadata:
    """Compute Engine and Cloud TPU."""

    every_seconds = 1.0
    _NOTICE_SECONDS = 30.0
    _HEADERS = {"Metadata-Flavor": "Google"}  # noqa: RUF012  a constant
    _PATH = "/computeMetadata/v1/instance/preempted"

    def __init__(self, url: str = CLOUDS["gcp"].metadata_url, *, wait_seconds: int = 60) -> None:
        """Keeps a request open for at most `wait_seconds`."""
        self._endpoint, self._wait_seconds = _Endpoint(url), wait_seconds
        self._tag = ""

    def read_notice(self) -> PreemptionNotice | None:
        """Returns at once the first time, later after a change or `wait_seconds`."""
        path, patience = self._PATH, 5.0
        if self._tag:
            wait = f"wait_for_change=true&last_etag={quote(self._tag)}"
            path = f"{path}?{wait}&timeout_sec={self._wait_seconds}"
            patience += self._wait_seconds
        answer = self._endpoint.request(path, self._HEADERS, patience_seconds=patience)
        state = answer.body.strip().upper()
        if answer.status != HTTPStatus.OK or state not in {"TRUE", "FALSE"}:
            self._tag = ""
            raise self._endpoint.unexpected(self._PATH, answer)
        self._tag = answer.headers.get("etag", "")
        return PreemptionNotice("gcp", self._NOTICE_SECONDS) if state == "TRUE" else None

    def acknowledge(self, notice: PreemptionNotice) -> None:
        """Does nothing: the cloud accepts no acknowledgement."""


class AwsMetadata:
    """EC2, IMDSv2; from a pod it needs a hop limit of 2."""

    every_seconds = 5.0
    _PATH = "/latest/meta-data/spot/instance-action"
    _TOKEN_SECONDS = 21600

    def __init__(self, url: str = CLOUDS["aws"].metadata_url) -> None:
        self._endpoint, self._token = _Endpoint(url), ""

    def read_notice(self) -> PreemptionNotice | None:
        """Returns the notice; renews an expired token once."""
        answer = self._request_notice()
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            answer = self._request_notice()
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise self._endpoint.unexpected(self._PATH, answer)
        found = _mapping(answer.body)
        if found.get("action") not in {"terminate", "stop", "hibernate"}:
            raise self._endpoint.unexpected(self._PATH, answer)
        return PreemptionNotice("aws", _seconds_until(found.get("time")))

    def acknowledge(self, notice: PreemptionNotice) -> None:
        """Does nothing: the cloud accepts no acknowledgement."""

    def _request_notice(self) -> _HttpResponse:
        if not self._token:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(self._TOKEN_SECONDS)}
            answer = self._endpoint.request("/latest/api/token", headers, method="PUT")
            token = answer.body.strip()
            if answer.status != HTTPStatus.OK or not token.isprintable() or not token:
                raise self._endpoint.unexpected("/latest/api/token", answer)
            self._token = token
        return self._endpoint.request(self._PATH, {"X-aws-ec2-metadata-token": self._token})


class AzureMetadata:
    """Azure virtual machines."""

    every_seconds = 1.0
    _HEADERS = {"Metadata": "true"}  # noqa: RUF012  a constant
    _EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
    _NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

    def __init__(
        self, url: str = CLOUDS["azure"].metadata_url, *, first_patience_seconds: float = 150.0
    ) -> None:
        """Waits `first_patience_seconds` for the first response."""
        self._endpoint, self._name = _Endpoint(url), ""
        self._patience_seconds = first_patience_seconds

    def read_notice(self) -> PreemptionNotice | None:
        """Returns the notice that names this node."""
        if not self._name:
            self._name = self._own_name()
        answer = self._endpoint.request(
            self._EVENTS, self._HEADERS, patience_seconds=self._patience_seconds
        )
        if answer.status != HTTPStatus.OK:
            raise self._endpoint.unexpected(self._EVENTS, answer)
        self._patience_seconds = 10.0
        events = _mapping(answer.body).get("Events")
        if not isinstance(events, list):
            raise self._endpoint.unexpected(self._EVENTS, answer)
        for event in events:
            if isinstance(event, dict) and self._is_ours(event):
                left = _seconds_until(event.get("NotBefore"))
                return PreemptionNotice("azure", left, str(event.get("EventId") or ""))
        return None

    def acknowledge(self, notice: PreemptionNotice) -> None:
        """Starts the event."""
        if not notice.event:
            return
        body = json.dumps({"StartRequests": [{"EventId": notice.event}]})
        headers = {**self._HEADERS, "Content-Type": "application/json"}
        answer = self._endpoint.request(self._EVENTS, headers, method="POST", body=body)
        if answer.status != HTTPStatus.OK:
            raise self._endpoint.unexpected(self._EVENTS, answer)

    def _is_ours(self, event: Mapping[str, Any]) -> bool:
        names = event.get("Resources")
        ours = isinstance(names, list) and self._name in [str(name).lower() for name in names]
        return ours and event.get("EventType") == "Preempt"

    def _own_name(self) -> str:
        answer = self._endpoint.request(self._NAME, self._HEADERS)
        name = answer.body.strip().lower()
        if answer.status != HTTPStatus.OK or not name:
            raise self._endpoint.unexpected(self._NAME, answer)
        return name


def open_metadata(cloud: str, url: str | None = None) -> MetadataService:
    """Returns the metadata service of a cloud, at `url` or at its default address.

    Raises:
        UnknownNameError: No cloud has this name.
    """
    service: MetadataService = load(cloud, find(cloud).metadata_service)(
        url or find(cloud).metadata_url
    )
    return service


def _mapping(body: str) -> dict[str, Any]:
    try:
        found = parse_json(body, "answer", any_text=True)
    except DataError as error:
        raise ValueError(str(error)) from error
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, not {body.strip()[:80]!r}")  # noqa: TRY004  foreign
    return found


def _seconds_until(moment: object) -> float | None:
    """Returns the seconds until an ISO 8601 or HTTP time; None if it is neither."""
    text = str(moment or "")
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(text)
        except ValueError:
            continue
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
    try:
        lines = record.read(path).lines
    except DataError:
        return
    step = lines[-1].step if lines else 0
    values = {"worker": worker, "cloud": notice.cloud, "seconds": notice.seconds}
    line = record.PreemptionNotice(time=utc_now(), step=step, **values)
    with contextlib.suppress(OSError):
        record.append(path, line)


class StopRequest:
    """A stop request by SIGTERM, Ctrl-C or a preemption notice; a second signal kills the worker.

    A notice does not count as a signal: the SIGTERM after it is the first one.
    """

    def __init__(self) -> None:
        self.requested = False
        self._was_signalled = False
        self._ends_seconds = float("inf")
        self._at_once: Callable[[], None] = _nothing

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


def _nothing() -> None:
    """Does nothing before a trainer exists."""
