"""What a cloud's machine tells those who run on it: whether it is about to be taken away.

Only the standard library, plain HTTP, no proxies: these addresses exist on the machine itself. What
was read there and when:

- Google Cloud: ``instance/preempted`` turns from FALSE to TRUE; ``wait_for_change`` keeps the request
  open until it does. The machine is off 30 s later.
  https://cloud.google.com/compute/docs/instances/create-use-spot and
  https://cloud.google.com/compute/docs/metadata/querying-metadata (2026-11-21). Whether GKE's own
  metadata server, which answers pods in its stead, has this path could not be verified: where it
  has not, the watch says so once, and SIGTERM comes from the kubelet.
- AWS: ``spot/instance-action`` is missing (404) until two minutes before the end; asked every 5 s with
  a session token.
  https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
  (2026-11-21)
- Azure: ``scheduledevents`` lists a Preempt at least 30 s ahead; asked every second. All machines of a
  scale set are told, so an event counts only where it names this machine. The first answer may take
  two minutes. https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (2026-11-21)
"""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from cloudgan.core.clock import utc_moment

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDRESSES = {
    "aws": "http://169.254.169.254",
    "azure": "http://169.254.169.254",
    "gcp": "http://metadata.google.internal",
}
"""By cloud."""
_MOST_BYTES = 65536


class Notice(NamedTuple):
    """That this machine is about to be taken away.

    Attributes:
        cloud: Who says so.
        seconds: That were left when it was read; None: nobody said.
        event: What the cloud calls it, where it can be answered.
    """

    cloud: str
    seconds: float | None
    event: str = ""


class MetadataService(Protocol):
    """A cloud's own service on each of its machines.

    Attributes:
        every_seconds: Between two looks, as the cloud asks for.
    """

    every_seconds: float

    def look(self) -> Notice | None:
        """Returns the notice; None while there is none.

        Raises:
            OSError: Nobody answers.
            ValueError: What answers is not this service.
        """

    def acknowledge(self, notice: Notice) -> None:
        """Tells the cloud that nobody needs the machine any more.

        Raises:
            OSError: Nobody answers.
            ValueError: What answers is not this service.
        """


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


class _Address:
    """Where a service listens."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        body: str | None = None,
        patience_seconds: float = 5.0,
    ) -> _Answer:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=patience_seconds)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            text = answer.read(_MOST_BYTES).decode(errors="replace")
            return _Answer(answer.status, found, text)
        except http.client.HTTPException as error:
            raise ValueError(f"{self._host} speaks no HTTP: {error}") from error
        finally:
            connection.close()

    def odd(self, path: str, answer: _Answer) -> ValueError:
        """What to raise where an answer is not one of this service."""
        told = answer.body.strip()[:80]
        return ValueError(f"{self._host}{path} answered {answer.status} {told!r}")


class GoogleMetadata:
    """Of Compute Engine and Cloud TPU."""

    every_seconds = 1.0
    _NOTICE_SECONDS = 30.0
    _HEADERS = {"Metadata-Flavor": "Google"}  # noqa: RUF012  a constant
    _PATH = "/computeMetadata/v1/instance/preempted"

    def __init__(self, url: str = ADDRESSES["gcp"], *, wait_seconds: int = 60) -> None:
        """Keeps a request open for `wait_seconds` at most."""
        self._address, self._wait_seconds = _Address(url), wait_seconds
        self._tag = ""

    def look(self) -> Notice | None:
        """Returns at once the first time, later when it changes or `wait_seconds` have passed."""
        path, patience = self._PATH, 5.0
        if self._tag:
            wait = f"wait_for_change=true&last_etag={quote(self._tag)}"
            path = f"{path}?{wait}&timeout_sec={self._wait_seconds}"
            patience += self._wait_seconds
        answer = self._address.ask(path, self._HEADERS, patience_seconds=patience)
        told = answer.body.strip().upper()
        if answer.status != HTTPStatus.OK or told not in {"TRUE", "FALSE"}:
            self._tag = ""
            raise self._address.odd(self._PATH, answer)
        self._tag = answer.headers.get("etag", "")
        return Notice("gcp", self._NOTICE_SECONDS) if told == "TRUE" else None

    def acknowledge(self, notice: Notice) -> None:
        """Nobody listens."""


class AwsMetadata:
    """Of EC2, second version; from a pod it needs a hop limit of 2."""

    every_seconds = 5.0
    _PATH = "/latest/meta-data/spot/instance-action"
    _TOKEN_SECONDS = 21600

    def __init__(self, url: str = ADDRESSES["aws"]) -> None:
        self._address, self._token = _Address(url), ""

    def look(self) -> Notice | None:
        """Returns the notice; a token that is no longer good is replaced once."""
        answer = self._ask()
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            answer = self._ask()
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise self._address.odd(self._PATH, answer)
        found = _mapping(answer.body)
        if found.get("action") not in {"terminate", "stop", "hibernate"}:
            raise self._address.odd(self._PATH, answer)
        return Notice("aws", _seconds_until(found.get("time")))

    def acknowledge(self, notice: Notice) -> None:
        """Nobody listens."""

    def _ask(self) -> _Answer:
        if not self._token:
            told = {"X-aws-ec2-metadata-token-ttl-seconds": str(self._TOKEN_SECONDS)}
            answer = self._address.ask("/latest/api/token", told, method="PUT")
            token = answer.body.strip()
            if answer.status != HTTPStatus.OK or not token.isprintable() or not token:
                raise self._address.odd("/latest/api/token", answer)
            self._token = token
        return self._address.ask(self._PATH, {"X-aws-ec2-metadata-token": self._token})


class AzureMetadata:
    """Of Azure's virtual machines."""

    every_seconds = 1.0
    _HEADERS = {"Metadata": "true"}  # noqa: RUF012  a constant
    _EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
    _NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

    def __init__(
        self, url: str = ADDRESSES["azure"], *, first_patience_seconds: float = 150.0
    ) -> None:
        """The first answer may take as long."""
        self._address, self._name = _Address(url), ""
        self._patience_seconds = first_patience_seconds

    def look(self) -> Notice | None:
        """Returns the notice that names this machine."""
        if not self._name:
            self._name = self._own_name()
        answer = self._address.ask(
            self._EVENTS, self._HEADERS, patience_seconds=self._patience_seconds
        )
        if answer.status != HTTPStatus.OK:
            raise self._address.odd(self._EVENTS, answer)
        self._patience_seconds = 10.0
        events = _mapping(answer.body).get("Events")
        if not isinstance(events, list):
            raise self._address.odd(self._EVENTS, answer)
        for event in events:
            if isinstance(event, dict) and self._is_ours(event):
                left = _seconds_until(event.get("NotBefore"))
                return Notice("azure", left, str(event.get("EventId") or ""))
        return None

    def acknowledge(self, notice: Notice) -> None:
        """Lets the event begin."""
        if not notice.event:
            return
        body = json.dumps({"StartRequests": [{"EventId": notice.event}]})
        headers = {**self._HEADERS, "Content-Type": "application/json"}
        answer = self._address.ask(self._EVENTS, headers, method="POST", body=body)
        if answer.status != HTTPStatus.OK:
            raise self._address.odd(self._EVENTS, answer)

    def _is_ours(self, event: Mapping[str, Any]) -> bool:
        names = event.get("Resources")
        ours = isinstance(names, list) and self._name in [str(name).lower() for name in names]
        return ours and event.get("EventType") == "Preempt"

    def _own_name(self) -> str:
        answer = self._address.ask(self._NAME, self._HEADERS)
        name = answer.body.strip().lower()
        if answer.status != HTTPStatus.OK or not name:
            raise self._address.odd(self._NAME, answer)
        return name


def open_metadata(cloud: str, url: str | None = None) -> MetadataService:
    """Returns a cloud's service, at `url` where it is not at its own address.

    Raises:
        KeyError: There is no such cloud.
    """
    services: dict[str, type[AwsMetadata | AzureMetadata | GoogleMetadata]] = {
        "aws": AwsMetadata,
        "azure": AzureMetadata,
        "gcp": GoogleMetadata,
    }
    return services[cloud](url or ADDRESSES[cloud])


def _mapping(body: str) -> dict[str, Any]:
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, not {body.strip()[:80]!r}")  # noqa: TRY004  foreign
    return found


def _seconds_until(moment: object) -> float | None:
    """How long until a moment, as ISO 8601 or as in HTTP's headers; None where it is neither."""
    text = str(moment or "")
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(text)
        except ValueError:
            continue
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return max(0.0, (found - utc_moment()).total_seconds())
    return None
