"""Routes: maps a request to a verb on objects and the required permission."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes import discovery
from emulators.kubernetes.api import Options
from emulators.kubernetes.pod_exec import ExecSession, handshake
from emulators.kubernetes.resources import SUBRESOURCES
from emulators.kubernetes.rights import Question, answer_review
from emulators.kubernetes.status_errors import Refusal, no_such_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from emulators.kubernetes.api import Api
    from emulators.kubernetes.logs import Logs
    from emulators.kubernetes.reading import Reading
    from emulators.kubernetes.resources import Resource
    from emulators.kubernetes.rights import Identity, Rights
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
OBJECTS = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?/?$"
)
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
REVIEWS = {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}


class Answer(NamedTuple):
    body: Any = None
    code: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    stream: Iterator[bytes] | None = None
    upgrade: ExecSession | None = None
    """Serves the connection after the answer 101."""


class HttpRequest(NamedTuple):
    """A received request with its decoded body."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    kind: str
    """Its content type."""
    agent: str
    words: Mapping[str, list[str]]
    """Its query with all values of each name."""
    headers: Mapping[str, str]


class Asked(NamedTuple):
    """A parsed request for objects."""

    resource: Resource
    namespace: str
    name: str
    part: str
    query: dict[str, str]
    body: Any
    kind: str
    options: Options
    words: Mapping[str, list[str]]
    headers: Mapping[str, str]


class Routes:
    """Answers requests."""

    def __init__(
        self,
        store: Store,
        api: Api,
        rights: Rights,
        *,
        reading: Reading,
        logs: Logs,
        version: str,
    ) -> None:
        self.store, self.rights = store, rights
        self._api, self._reading, self._logs = api, reading, logs
        self._version = version
        self._acts = {
            "list": self._list,
            "watch": self._watch,
            "get": self._get,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_all,
        }

    def ask(self, identity: Identity, request: HttpRequest) -> Answer:
        """Serves one authenticated request."""
        method, query, body = request.method, request.query, request.body
        if method == "GET":
            outcome = discovery.answer(self.store.resources, request.path, self._version)
            if outcome is not None:
                return Answer(outcome)
        found = OBJECTS.match(request.path)
        if not found:
            raise no_such_path()
        group, version = found["group"] or "", found["core"] or found["version"]
        plural, part = found["plural"], found["part"] or ""
        if plural in REVIEWS and group == "authorization.k8s.io" and method == "POST":
            return Answer(answer_review(self.rights, identity, plural, body), 201)
        resource = self._resource(group, version, plural)
        if part and part not in {*SUBRESOURCES.get(plural, ()), *(["status"] * resource.status)}:
            raise no_such_path()
        namespace, name = found["namespace"] or "", found["name"] or ""
        options = Options(query, request.agent)
        asked = Asked(
            *(resource, namespace, name, part, query, body, request.kind, options),
            request.words,
            request.headers,
        )
        verb = self._verb(method, asked)
        self._require(identity, verb, asked)
        if asked.part == "exec":
            # Both since 1.35: GET is `get`, and the registry requires `create` for every method
            # (feature gate AuthorizePodWebsocketUpgradeCreatePermission, kubernetes/pull/134577).
            self._require(identity, "create", asked)
        if verb == "patch" and "apply" in request.kind and not self._exists(asked):
            self._require(identity, "create", asked)
        return self._acts[verb](asked)

    def _resource(self, group: str, version: str, plural: str) -> Resource:
        for one in self.store.resources:
            if (one.group, one.version, one.plural) == (group, version, plural):
                return one
        raise no_such_path()

    def _exists(self, asked: Asked) -> bool:
        return self.store.find(asked.resource, asked.namespace, asked.name) is not None

    def _require(self, identity: Identity, verb: str, asked: Asked) -> None:
        question = Question(
            verb,
            asked.resource.group,
            asked.resource.plural,
            asked.part,
            # A namespace is an object of the cluster, but rights on it are those within it.
            asked.name if asked.resource.plural == "namespaces" else asked.namespace,
            asked.name,
        )
        self.rights.require(identity, question, asked.resource)

    @staticmethod
    def _verb(method: str, asked: Asked) -> str:
        if method == "POST":
            if asked.name and asked.part not in {"binding", "eviction"}:
                raise Refusal(
                    405, "the server does not allow this method on the requested resource"
                )
            return "create"
        if asked.name:
            return VERBS[method]
        if method == "GET":
            return "watch" if asked.query.get("watch") in {"true", "True", "1"} else "list"
        if method == "DELETE":
            return "deletecollection"
        raise Refusal(405, "the server does not allow this method on the requested resource")

    def _list(self, asked: Asked) -> Answer:
        return Answer(self._reading.list(asked.resource, asked.namespace or None, asked.query))

    def _watch(self, asked: Asked) -> Answer:
        events = self._reading.watch(asked.resource, asked.namespace or None, asked.query)
        return Answer(stream=events)

    def _get(self, asked: Asked) -> Answer:
        if asked.part == "exec":
            session = ExecSession(self.store, asked.namespace, asked.name, asked.words)
            return Answer(code=101, headers=handshake(asked.headers), upgrade=session)
        if asked.part == "log":
            lines = self._logs.read(asked.namespace, asked.name, asked.query)
            return Answer(stream=lines, headers={"Content-Type": "text/plain"})
        return Answer(self.store.get(asked.resource, asked.namespace, asked.name))

    def _update(self, asked: Asked) -> Answer:
        of = (asked.resource, asked.namespace, asked.name)
        return Answer(self._api.update(*of, asked.body, asked.options, part=asked.part))

    def _patch(self, asked: Asked) -> Answer:
        of = (asked.resource, asked.namespace, asked.name)
        if "apply" not in asked.kind:
            return Answer(
                self._api.patch(*of, asked.body, asked.options, kind=asked.kind, part=asked.part)
            )
        if "fieldManager" not in asked.query:
            why = "fieldManager: Required value: is required for apply patch"
            raise Refusal(400, f"PatchOptions.meta.k8s.io is invalid: {why}")
        done, new = self._api.apply(*of, asked.body, asked.options)
        return Answer(done, 201 if new else 200)

    def _create(self, asked: Asked) -> Answer:
        if asked.part == "binding":
            self._api.bind(asked.namespace, asked.name, asked.body["target"]["name"])
            return Answer(SUCCESS | {"code": 201}, 201)
        if asked.part == "eviction":
            options = asked.body.get("deleteOptions") or {}
            self._api.evict(asked.resource, asked.namespace, asked.name, options)
            return Answer(SUCCESS | {"code": 201}, 201)
        made = self._api.create(asked.resource, asked.namespace, asked.body, asked.options)
        return Answer(made, 201)

    def _delete(self, asked: Asked) -> Answer:
        options, dry_run = _delete_options(asked)
        gone = self._api.delete(
            asked.resource, asked.namespace, asked.name, options, dry_run=dry_run
        )
        if self._exists(asked) or asked.resource.plural == "pods":
            return Answer(gone)
        own = gone["metadata"]
        details = {"name": own["name"], "group": asked.resource.group}
        details |= {"kind": asked.resource.plural, "uid": own["uid"]}
        return Answer(SUCCESS | {"details": details})

    def _delete_all(self, asked: Asked) -> Answer:
        options, dry_run = _delete_options(asked)
        of = (asked.resource, asked.namespace)
        found = self._reading.list(*of, asked.query)
        for one in found["items"]:
            self._api.delete(*of, one["metadata"]["name"], options, dry_run=dry_run)
        return Answer(found)


def _delete_options(asked: Asked) -> tuple[Object, bool]:
    """Returns what the query or the body says about a deletion, and whether it is only asked."""
    fields = ("gracePeriodSeconds", "propagationPolicy")
    options: Object = {field: asked.query[field] for field in fields if field in asked.query}
    options |= {name: value for name, value in (asked.body or {}).items() if value is not None}
    return options, asked.options.dry_run or options.get("dryRun") == ["All"]
