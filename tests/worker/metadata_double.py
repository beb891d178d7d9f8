"""HTTP servers on loopback that behave as the clouds' metadata services."""

from __future__ import annotations

import datetime as dt
import json
import threading
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

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
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def preempt(self, seconds):
        self.seconds = seconds
        self.changed.set()

    def moment(self):
        return dt.datetime.now(tz=dt.UTC) + dt.timedelta(seconds=self.seconds)

    def close(self):
        self.changed.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method, path, query, headers, body):
        if self.unexpected:
            return (*self.unexpected, {})
        return getattr(self, f"_{self.cloud}")(method, path, query, headers, body)

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


def _handler(double):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            double.asked.append(f"{self.command} {parts.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = parse_qs(parts.query)
            given = double.answer(self.command, parts.path, query, self.headers, body)
            status, text, headers = given
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_POST = do_GET  # noqa: N815  http.server's own names

        def log_message(self, *_):
            """Logs nothing."""

    return Handler
