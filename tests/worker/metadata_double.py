"""HTTP servers on loopback that behave as the clouds' metadata services."""

import datetime as dt
import json
import threading
from email.utils import format_datetime
from urllib.parse import parse_qs, urlsplit

from emulators.http import Answer, HttpServer

OURS = "aks-gpu-123-vmss_3"


class MetadataDouble:
    """The metadata service of one cloud.

    Attributes:
        asked: All requests, such as ``GET /latest/meta-data/...``.
        posted: Bodies of POST requests.
        unexpected: Status and body of every response, instead of the cloud's.
        tokens: Valid EC2 tokens.
        resources: Nodes in the Azure event.
    """

    def __init__(self, cloud):
        self.cloud, self.asked, self.posted = cloud, [], []
        self.unexpected, self.tokens, self.resources = None, set(), [OURS]
        self.seconds = None
        self.changed = threading.Event()
        self._server = HttpServer(self._answer)
        self.url = self._server.url

    def preempt(self, seconds):
        self.seconds = seconds
        self.changed.set()

    def moment(self):
        return dt.datetime.now(tz=dt.UTC) + dt.timedelta(seconds=self.seconds)

    def close(self):
        self.changed.set()
        self._server.close()

    def _answer(self, asked):
        parts = urlsplit(asked.target)
        self.asked.append(f"{asked.method} {parts.path}")
        if self.unexpected:
            return Answer(*self.unexpected)
        given = (asked.method, parts.path, parse_qs(parts.query), asked.headers, asked.body)
        return Answer(*getattr(self, f"_{self.cloud}")(*given))

    def _gcp(self, method, path, query, headers, body):
        if path != "/computeMetadata/v1/instance/preempted" or method != "GET":
            return 404, "not found", {}
        if headers.get("Metadata-Flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header.", {}
        tag = "gone" if self.seconds is not None else "here"
        if query.get("wait_for_change") == ["true"] and query.get("last_etag") == [tag]:
            self.changed.wait(min(5.0, float(query["timeout_sec"][0])))
        is_gone = self.seconds is not None
        return 200, "TRUE" if is_gone else "FALSE", {"ETag": "gone" if is_gone else "here"}

    def _aws(self, method, path, query, headers, body):
        if (method, path) == ("PUT", "/latest/api/token"):
            if not headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                return 400, "", {}
            token = f"token-{len(self.asked)}"
            self.tokens.add(token)
            return 200, token, {}
        if headers.get("X-aws-ec2-metadata-token") not in self.tokens:
            return 401, "", {}
        if path != "/latest/meta-data/spot/instance-action" or self.seconds is None:
            return 404, "not found", {}
        time = self.moment().strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, json.dumps({"action": "terminate", "time": time}), {}

    def _azure(self, method, path, query, headers, body):
        if headers.get("Metadata") != "true":
            return 400, "Bad request. Required metadata header not specified", {}
        if path == "/metadata/instance/compute/name":
            return 200, OURS, {}
        if path != "/metadata/scheduledevents" or query.get("api-version") != ["2020-07-01"]:
            return 404, "", {}
        if method == "POST":
            self.posted.append(json.loads(body))
            return 200, "", {}
        events = [{"EventId": "R1", "EventType": "Reboot", "Resources": [OURS], "NotBefore": ""}]
        if self.seconds is not None:
            when = format_datetime(self.moment(), usegmt=True)
            event = {"EventId": "P1", "EventType": "Preempt", "EventStatus": "Scheduled"}
            events.append(event | {"Resources": self.resources, "NotBefore": when})
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": events}), {}
