"""The HTTPS server in front of the API: routes, bearer tokens and what their roles allow, logs, faults on request."""

from __future__ import annotations

import json
import re
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from emulators.faults import Faults
from emulators.http import Answer, AnswerLost, Asked, HttpServer
from emulators.kubernetes.api import Api
from emulators.kubernetes.containers import free_pair
from emulators.kubernetes.exec import TRUE, ExecSession, log_of, state_of
from emulators.kubernetes.objects import Object, Refusal, Resource, Store, at, forbidden, is_over

OBJECTS = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>log|exec|eviction))?/?$"
)
VERBS = {
    ("GET", True): "get",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("GET", False): "list",
    ("POST", False): "create",
}
"""By method, and whether the path names an object."""
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Request(NamedTuple):
    """One request as it was answered. `status` 0: the connection was cut instead."""

    method: str
    path: str
    """With its query."""
    status: int


class ApiServer:
    """Serves on one port of loopback, with pauses on request."""

    def __init__(
        self, store: Store, api: Api, rights: Rights, context: ssl.SSLContext, kubelets: Any
    ) -> None:
        self.store, self.api, self.rights = store, api, rights
        self.requests: list[Request] = []
        self.faults = Faults()
        self._context, self._kubelets = context, kubelets
        self.port = free_pair(set())  # stays reserved while the server is away
        self.start()

    def start(self) -> None:
        self._server = HttpServer(self._answer, self._context, port=self.port)

    def stop(self) -> None:
        """Refuses new connections and resets those that are open."""
        self._server.close()
        self._server.reset()

    def _answer(self, asked: Asked) -> Answer:
        try:
            answer = self._serve(asked)
        except Refusal as refusal:
            answer = Answer(refusal.code, refusal.body)
        except AnswerLost:
            self.requests.append(Request(asked.method, asked.target, 0))
            raise
        except Exception as error:
            self.store.troubles.append(error)
            raise
        # Before the answer is sent, so that a client with the answer finds it there.
        self.requests.append(Request(asked.method, asked.target, answer.status))
        return answer

    def _serve(self, asked: Asked) -> Answer:
        """Answers as the API does, or with the planned fault of this request."""
        fault = self.faults.meet(f"{asked.method} {urlsplit(asked.target).path}")
        if fault and not fault.acts:
            raise fault.error
        answer = self._ask(asked, json.loads(asked.body) if asked.body else None)
        if fault:
            raise fault.error
        return answer

    def _ask(self, asked: Asked, body: Any) -> Answer:
        """Finds object and verb of a request, checks the permission and acts."""
        method, (_, _, path, search, _) = asked.method, urlsplit(asked.target)
        words = parse_qs(search)
        query = {name: values[-1] for name, values in words.items()}
        who = self.rights.who(asked.headers.get("Authorization"))
        if method == "GET" and (known := _groups(self.store.resources).get(path)):
            return Answer(200, known)
        if (method, path) == ("POST", REVIEWS):
            return Answer(201, self.rights.review(who, body))
        found = OBJECTS.match(path)
        of = {name: text or "" for name, text in (found.groupdict() if found else {}).items()}
        kinds = {one[:3]: one for one in self.store.resources}
        kind = of and kinds.get((of["group"], of["version"] or "v1", of["plural"]))
        if not kind:
            raise Refusal(404, "the server could not find the requested resource")
        namespace, name, part = of["namespace"], of["name"], of["part"]
        verb = "create" if part == "eviction" else VERBS.get((method, bool(name)))
        if verb is None:
            raise Refusal(405, "the server does not allow this method on the requested resource")
        if verb == "list" and query.get("watch") in TRUE:
            verb = "watch"
        # A namespace is an object of the cluster, but rights on it are those within it.
        place = name if kind.plural == "namespaces" else namespace
        # Since 1.35 exec requires `create`, too, whatever the method (kubernetes/pull/134577).
        for one in (verb, "create") if part == "exec" else (verb,):
            question = Question(one, kind.group, kind.plural, part, place, name)
            self.rights.require(who, question, kind)
        if part == "exec":
            return ExecSession(self.store, namespace, name, words).answer(asked)
        if part == "log":
            return Answer(200, self._read_log(namespace, name, query))
        if verb == "watch":
            return Answer(200, self.api.watch(kind, namespace or None, query))
        if verb == "patch" and "merge-patch+json" not in asked.headers.get("Content-Type", ""):
            raise Refusal(415, "the double knows JSON merge patches only")
        known = self._act(verb, kind, (namespace, name), query, body)
        return Answer(201 if verb == "create" else 200, known)

    def _act(
        self, verb: str, kind: Resource, of: tuple[str, str], query: Object, body: Any
    ) -> Object:
        api, (namespace, name) = self.api, of
        if verb == "list":
            return api.list(kind, namespace or None, query.get("labelSelector", ""))
        if verb == "get":
            return self.store.get(kind, namespace, name)
        if verb == "create":
            return api.evict(namespace, name) if name else api.create(kind, namespace, body)
        if verb == "delete":
            return api.delete(kind, namespace, name, {**query, **(body or {})})
        return api.patch(kind, namespace, name, body)

    def _read_log(self, namespace: str, name: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yields the log of a container, by lines with a time; refuses when there is none yet."""
        pod = self.store.get("pods", namespace, name)
        container, node = query["container"], pod["spec"].get("nodeName")
        if node in self._kubelets.lost_nodes:
            where = f"https://{node}:10250/containerLogs/{namespace}/{name}/{container}"
            raise Refusal(500, f'Get "{where}": dial tcp: connect: no route to host')
        state = state_of(pod, container)
        if not node or "waiting" in state or not state:
            why = at(state, "waiting", "reason", default="ContainerCreating")
            text = f'container "{container}" in pod "{name}" is waiting to start: {why}'
            raise Refusal(400, text)
        started = at(state, "running", "startedAt") or state["terminated"]["startedAt"]
        log = log_of(self._kubelets.root, pod, container)
        lines = self._lines(pod, container, log, follow=query.get("follow") in TRUE)
        # The container's start and the number of the line: the same whenever it is read.
        time_of = f"{started.removesuffix('Z')}.{{:09}}Z ".format
        return (time_of(number).encode() + line for number, line in enumerate(lines))

    def _lines(self, pod: Object, container: str, path: Path, *, follow: bool) -> Iterator[bytes]:
        with path.open("rb") as log:
            rest = b""
            while True:
                ended = not follow or self._has_ended(pod, container)
                while line := log.readline():
                    rest += line
                    if line.endswith(b"\n"):
                        yield rest
                        rest = b""
                if ended:
                    break
                if self.store.closed:
                    raise AnswerLost
                time.sleep(0.03)
        if rest:
            yield rest

    def _has_ended(self, pod: Object, container: str) -> bool:
        own = pod["metadata"]
        found = self.store.find("pods", own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"]:
            return True
        return is_over(found) or "terminated" in state_of(found, container)


def _groups(resources: list[Resource]) -> dict[str, Object]:
    """What `GET /apis` and `GET /apis/GROUP` answer, by path."""
    found = {}
    for one in resources:
        version = {"groupVersion": one.api_version, "version": one.version}
        group = {"name": one.group, "versions": [version], "preferredVersion": version}
        found[f"/apis/{one.group}"] = group
    del found["/apis/"]
    everything = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [*found.values()]}
    return found | {"/apis": everything}


class Identity(NamedTuple):
    user: str
    rules: tuple[Object, ...] | None
    """Roles, cluster roles or bare rules; None: everything is allowed."""
    ends: float = float("inf")
    """When the token expires, on the monotonic clock."""


class Question(NamedTuple):
    """A requested action."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


class Rights:
    """Makes and checks tokens; a real cluster binds roles to users, here a token has its roles."""

    def __init__(self) -> None:
        self._known: dict[str, Identity] = {}
        self.authenticator: Callable[[str], str | None] = lambda _: None
        """Returns the user of a cloud's token, as a webhook of a real cluster does; may do everything."""

    def token(self, rules: Sequence[Object] | None = None, seconds: float = float("inf")) -> str:
        """Makes a token that expires after `seconds`.

        Without arguments it may do everything. `rules` are Role or ClusterRole objects or bare rules: what they
        don't allow is forbidden.
        """
        token = f"token-{secrets.token_urlsafe(24)}"
        name = "admin" if rules is None else f"user-{len(self._known)}"
        known = None if rules is None else tuple(rules)
        self._known[token] = Identity(name, known, time.monotonic() + seconds)
        return token

    def who(self, header: str | None) -> Identity:
        """Returns who sends a request with this `Authorization` header; refuses unknown tokens."""
        token = (header or "").removeprefix("Bearer ")
        found = self._known.get(token)
        if found is None and token and (user := self.authenticator(token)):
            found = Identity(user, None)
        if found is None or time.monotonic() > found.ends:
            raise Refusal(401, "Unauthorized")
        return found

    def allows(self, who: Identity, question: Question) -> bool:
        for role in who.rules or ():
            is_bound = role.get("kind") != "ClusterRole"
            place = role.get("metadata", {}).get("namespace", "") if is_bound else ""
            if place in {"", question.namespace} and any(
                _rule_allows(rule, question) for rule in role.get("rules", [role])
            ):
                return True
        return who.rules is None

    def require(self, who: Identity, question: Question, resource: Resource) -> None:
        """Raises Kubernetes' error for a missing permission."""
        if self.allows(who, question):
            return
        part = f"/{question.subresource}" if question.subresource else ""
        where = f'in the namespace "{question.namespace}"'
        why = (
            f'User "{who.user}" cannot {question.verb} resource "{question.resource}{part}" in API group '
            f'"{question.group}" {where if question.namespace else "at the cluster scope"}'
        )
        raise forbidden(resource, question.name, why)

    def review(self, who: Identity, body: Object) -> Object:
        """Answers a SelfSubjectAccessReview."""
        asked = body["spec"]["resourceAttributes"]
        allowed = self.allows(who, Question(*(asked.get(one, "") for one in Question._fields)))
        return {**body, "metadata": {}, "status": {"allowed": allowed}}


def _rule_allows(rule: Object, question: Question) -> bool:
    part = f"/{question.subresource}" if question.subresource else ""
    names = rule.get("resourceNames")
    return (
        bool({question.verb, "*"} & set(rule["verbs"]))
        and bool({question.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({f"{question.resource}{part}", "*"} & set(rule.get("resources") or ()))
        and (not names or question.name in names)
    )
