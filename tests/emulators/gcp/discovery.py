"""Google's discovery documents: routes, parameters and schemas.

The documents come with google-api-python-client, https://github.com/googleapis/google-api-python-client
(as installed for the tests; read 2026-11-21).
"""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import jsonschema

_FORMATS = {
    "int64": r"^-?\d+$",
    "uint64": r"^\d+$",
    "google-duration": r"^\d+(\.\d{1,9})?s$",
    "google-datetime": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
    "date-time": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
}


class Method(NamedTuple):
    """A method of an API, such as ``container.projects.locations.clusters.create``."""

    id: str
    verb: str
    pattern: re.Pattern[str]
    parameters: dict[str, dict[str, Any]]
    request: str | None
    response: str | None


class Match(NamedTuple):
    """A method and the parts of the path that it took."""

    api: Api
    method: Method
    path: dict[str, str]


class Api:
    """One API in one version."""

    def __init__(self, name: str, version: str) -> None:
        folder = resources.files("googleapiclient.discovery_cache.documents")
        document = json.loads((folder / f"{name}.{version}.json").read_text(encoding="utf-8"))
        self.name = name
        self.host: str = urlsplit(document["rootUrl"]).netloc
        self._schemas: dict[str, dict[str, Any]] = document["schemas"]
        self._shared = document.get("parameters", {})
        base = "/" + document["servicePath"]
        self.methods = {one["id"]: _method(one, base) for one in _walk(document)}
        self._validators: dict[tuple[str, bool], Any] = {}

    def match(self, verb: str, path: str) -> Match | None:
        """Finds the method of a path, which begins after the host."""
        for method in self.methods.values():
            if method.verb == verb and (found := method.pattern.match(path)):
                parts = {key: unquote(value) for key, value in found.groupdict().items()}
                return Match(self, method, parts)
        return None

    def wrong_query(self, method: Method, query: dict[str, str]) -> list[str]:
        """Yields the violations in the parameters of a call."""
        known = {k: v for k, v in method.parameters.items() if v["location"] == "query"}
        wrong = [f"unknown parameter {key}" for key in query if key not in {*known, *self._shared}]
        for name, spec in known.items():
            if spec.get("required") and name not in query:
                wrong.append(f"missing parameter {name}")
            if name in query and not _fits(spec, query[name]):
                wrong.append(f"{name}={query[name]} is no {spec.get('type')} as documented")
        return wrong

    def wrong_request(self, method: Method, body: Any) -> list[str]:
        """Says what of a body this method does not take, what only it may set included."""
        if method.request is None:
            return [] if body is None else ["this method takes no body"]
        return self._wrong(method.request, body or {}, is_request=True)

    def wrong_answer(self, method: Method, body: Any) -> list[str]:
        """Yields the violations in an answer."""
        return self._wrong(method.response, body, is_request=False) if method.response else []

    def _wrong(self, schema: str, body: Any, *, is_request: bool) -> list[str]:
        key = (schema, is_request)
        if key not in self._validators:
            reached = self._reached(schema)
            defs = {name: _converted(self._schemas[name], is_request) for name in reached}
            whole = {"$defs": defs, "$ref": f"#/$defs/{schema}"}
            self._validators[key] = jsonschema.Draft202012Validator(whole)
        return [
            f"{'/'.join(map(str, error.path)) or schema}: {error.message}"
            for error in self._validators[key].iter_errors(body)
        ]

    def _reached(self, schema: str) -> set[str]:
        """The schemas that one refers to, and it."""
        found, ahead = set(), [schema]
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += re.findall(r'"\$ref": "(\w+)"', json.dumps(self._schemas[name]))
        return found


@functools.cache
def api(name: str, version: str) -> Api:
    """Returns an API; each document is read once in a process."""
    return Api(name, version)


def _walk(part: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(part.get("methods", {}).values())
    for inner in part.get("resources", {}).values():
        found += _walk(inner)
    return found


def _method(one: dict[str, Any], base: str) -> Method:
    path = re.escape(base + one.get("flatPath", one["path"]))
    # A name of an object in a bucket may hold what parts a path; it comes percent-encoded.
    pattern = re.sub(r"\\\{\\?\+?(\w+)\\\}", r"(?P<\1>[^/:]+)", path)
    return Method(
        one["id"],
        one["httpMethod"],
        re.compile(f"^{pattern}$"),
        one.get("parameters", {}),
        one.get("request", {}).get("$ref"),
        one.get("response", {}).get("$ref"),
    )


def _fits(spec: dict[str, Any], text: str) -> bool:
    if "enum" in spec:
        return text in spec["enum"]
    if spec.get("type") == "boolean":
        return text in ("true", "false")
    return spec.get("type") != "integer" or re.fullmatch(r"-?\d+", text) is not None


def _converted(schema: dict[str, Any], is_request: bool) -> dict[str, Any]:
    """Turns a schema of discovery into JSON Schema, where unknown fields are errors."""
    kind = schema.get("type", "any")
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    if kind == "object":
        return _object(schema, is_request)
    if kind == "array":
        return {"type": "array", "items": _converted(schema["items"], is_request)}
    return {} if kind == "any" else _scalar(schema, kind)


def _object(schema: dict[str, Any], is_request: bool) -> dict[str, Any]:
    more, known = schema.get("additionalProperties"), schema.get("properties", {})
    return {
        "type": "object",
        "properties": {
            name: False if is_request and inner.get("readOnly") else _converted(inner, is_request)
            for name, inner in known.items()
        },
        "additionalProperties": _converted(more, is_request) if more else not known,
    }


def _scalar(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    if "enum" in schema:
        return {"enum": schema["enum"]}
    pattern = _FORMATS.get(schema.get("format", ""))
    if schema.get("format") in ("int64", "uint64"):
        return {"type": ["string", "integer"], "pattern": pattern}
    return {"type": kind} | ({"pattern": pattern} if pattern else {})
