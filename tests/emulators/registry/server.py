"""The registry's HTTP side."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

from emulators.registry.content import Content, Manifest, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Access = Literal["open", "token", "basic"]
_ROUTE = re.compile(r"/v2/(?P<name>.+?)/(?P<kind>manifests|blobs|tags)/(?P<rest>.+)")


class LocalRegistry(Content):
    """A running registry: its content, its users, and its faults."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.access: Access = "open"
        self.users: dict[str, str] = {}
        self.public: set[str] = set()
        """Repositories that need no login to pull, if the registry is not open."""
        self.token_seconds = 60.0
        self.tokens: dict[str, tuple[str, float]] = {}
        """Token -> what it allows, and until when."""
        self.exchanged: dict[str, str] = {}
        """The token that Azure's registry issues for a token of Entra."""
        self.failures: deque[tuple[int, dict[str, str]]] = deque()
        """Answers that come before any other: status and headers."""
        self.names_digest = True
        self.lies_about_digest = False
        self.page_size = 100
        self.realm = ""
        self.asked: list[str] = []
        """METHOD PATH of all requests."""
        self.logins: list[str] = []
        """Their Authorization headers."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def expire_tokens(self) -> None:
        with self.lock:
            self.tokens = {token: (scope, 0.0) for token, (scope, _) in self.tokens.items()}

    def knows(self, header: str | None) -> bool:
        """Whether a Basic header names one of the users."""
        with contextlib.suppress(ValueError, IndexError):
            user, _, password = base64.b64decode((header or "").split()[1]).decode().partition(":")
            return self.users.get(user) == password
        return False


@contextlib.contextmanager
def local_registry() -> Iterator[LocalRegistry]:
    """Runs a registry on loopback."""
    made = LocalRegistry()

    class Handler(_Handler):
        registry = made

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[LocalRegistry]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        there = self.registry
        there.asked.append(f"{self.command} {self.path}")
        there.logins.append(self.headers.get("Authorization") or "")
        path = urlsplit(self.path).path
        if there.failures:
            status, headers = there.failures.popleft()
            self.refuse(status, "TOOMANYREQUESTS" if status == 429 else "UNKNOWN", headers)
        elif path == "/token":
            self.give_token()
        elif path == "/oauth2/exchange":
            self.exchange(parse_qs(body.decode()))
        elif path.startswith("/v2/") and self.may_in(path):
            self.route(path, body)
        elif not path.startswith("/v2/"):
            self.refuse(404, "UNSUPPORTED")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815  http.server's names

    def may_in(self, path: str) -> bool:
        there, shown = self.registry, self.headers.get("Authorization") or ""
        name = m["name"] if (m := _ROUTE.fullmatch(path)) else ""
        if there.access == "open":
            return True
        if there.access == "basic":
            if there.knows(shown):
                return True
            self.refuse(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="lab"'})
            return False
        scope, until = there.tokens.get(shown.removeprefix("Bearer "), ("", 0.0))
        verb = "pull" if self.command in ("GET", "HEAD") else "push"
        if until > time.monotonic() and (not name or _allows(scope, name, verb)):
            return True
        wanted = f'scope="repository:{name}:{"pull" if verb == "pull" else "pull,push"}"'
        challenge = f'Bearer realm="{there.realm or there.url + "/token"}",service="lab"'
        outcome = f"{challenge},{wanted}" if name else challenge
        self.refuse(401, "UNAUTHORIZED", {"WWW-Authenticate": outcome})
        return False

    def give_token(self) -> None:
        """An anonymous one allows public repositories only; it is issued all the same, as Docker Hub does."""
        there, shown = self.registry, self.headers.get("Authorization")
        known = there.knows(shown)
        if shown and not known:
            self.refuse(401, "UNAUTHORIZED")
            return
        granted = []
        for scope in parse_qs(urlsplit(self.path).query).get("scope", []):
            _, name, verbs = scope.split(":", 2)
            if known:
                granted.append(scope)
            elif name in there.public and "pull" in verbs.split(","):
                granted.append(f"repository:{name}:pull")
        token = secrets.token_hex(8)
        there.tokens[token] = (" ".join(granted), time.monotonic() + there.token_seconds)
        self.answer(
            200, json.dumps({"token": token, "expires_in": int(there.token_seconds)}).encode()
        )

    def exchange(self, form: dict[str, list[str]]) -> None:
        """As Azure's registry does: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md."""
        asked = (form.get("grant_type"), form.get("service"))
        found = self.registry.exchanged.get(form.get("access_token", [""])[0])
        if found is None or asked != (["access_token"], [self.registry.host]):
            self.refuse(401, "UNAUTHORIZED")
            return
        self.answer(200, json.dumps({"refresh_token": found}).encode())

    def route(self, path: str, body: bytes) -> None:
        if path == "/v2/":
            self.answer(200, b"{}")
            return
        match = _ROUTE.fullmatch(path)
        if match is None:
            self.refuse(404, "UNSUPPORTED")
        elif match["kind"] == "manifests":
            self.manifests(match["name"], match["rest"], body)
        elif match["kind"] == "tags":
            self.tags(match["name"])
        elif match["rest"].startswith("uploads/"):
            self.upload(match["name"], match["rest"].removeprefix("uploads/"), body)
        else:
            self.blob(match["rest"])

    def manifests(self, name: str, reference: str, body: bytes) -> None:
        there = self.registry
        if self.command == "PUT":
            manifest = Manifest(self.headers["Content-Type"], body)
            if lacking := there.missing_parts(name, manifest):
                self.refuse(400, f"MANIFEST_BLOB_UNKNOWN {lacking[0]}")
                return
            digest = there.put_manifest(name, reference, manifest)
            where = {"Location": f"/v2/{name}/manifests/{digest}", "Docker-Content-Digest": digest}
            self.answer(201, b"", where)
            return
        found = there.manifest(name, reference)
        if found is None:
            self.refuse(404, "MANIFEST_UNKNOWN")
            return
        digest, manifest = found
        if manifest.media_type not in ",".join(self.headers.get_all("Accept") or ()):
            self.refuse(404, "MANIFEST_UNKNOWN")
            return
        headers = {"Content-Type": manifest.media_type}
        if there.names_digest:
            headers["Docker-Content-Digest"] = (
                digest if not there.lies_about_digest else digest_of(b"")
            )
        self.answer(200, manifest.content, headers)

    def tags(self, name: str) -> None:
        there = self.registry
        if name not in there.tagged:
            self.refuse(404, "NAME_UNKNOWN")
            return
        after = parse_qs(urlsplit(self.path).query).get("last", [""])[0]
        known = sorted(tag for tag in there.tagged[name] if tag > after)
        page, left = known[: there.page_size], known[there.page_size :]
        link = {"Link": f'</v2/{name}/tags/list?last={page[-1]}>; rel="next"'} if left else {}
        self.answer(200, json.dumps({"name": name, "tags": page}).encode(), link)

    def blob(self, digest: str) -> None:
        content = self.registry.blobs.get(digest)
        if content is None:
            self.refuse(404, "BLOB_UNKNOWN")
            return
        self.answer(200, content, {"Docker-Content-Digest": digest})

    def upload(self, name: str, session: str, body: bytes) -> None:
        there = self.registry
        wanted = parse_qs(urlsplit(self.path).query).get("digest", [""])[0]
        if self.command == "POST":
            session = secrets.token_hex(8)
        content = there.uploads.pop(session, b"") + body
        where = {"Location": f"/v2/{name}/blobs/uploads/{session}", "Docker-Upload-UUID": session}
        if not wanted:
            there.uploads[session] = content
            self.answer(202, b"", where | {"Range": f"0-{max(0, len(content) - 1)}"})
        elif wanted != digest_of(content):
            self.refuse(400, "DIGEST_INVALID")
        else:
            there.put_blob(content)
            where = {"Location": f"/v2/{name}/blobs/{wanted}", "Docker-Content-Digest": wanted}
            self.answer(201, b"", where)

    def refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self.answer(status, json.dumps({"errors": [{"code": code}]}).encode(), headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _allows(scope: str, name: str, verb: str) -> bool:
    granted = (one.split(":") for one in scope.split())
    return any(known == name and verb in verbs.split(",") for _, known, verbs in granted)
