"""Requests and responses in the formats of botocore's service models."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from botocore.validate import ParamValidator
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import SERIALIZERS
from moto.core.utils import get_service_model
from werkzeug.datastructures import Headers, MultiDict
from werkzeug.wrappers import Response

SCOPE = re.compile(r"Credential=[^/]+/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")
PLACE = re.compile(r"\\{(\w+)(\\\+)?\\}")  # as re.escape writes {Bucket} and {Key+}
MODELS = {"servicequotas": "service-quotas"}


class Call(NamedTuple):
    """A parsed request."""

    service: str
    region: str
    operation: str
    asked: dict[str, Any]
    headers: Headers


class Refusal(Exception):
    """An error that AWS answers with."""

    def __init__(self, code: str, message: str = "refused by a test", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


@cache
def model(service: str) -> Any:
    return get_service_model(MODELS.get(service, service))


def scope(headers: Headers) -> tuple[str, str]:
    """Returns the service and region that a request was signed for; empty: it was not."""
    found = SCOPE.search(headers.get("Authorization", ""))
    return (found["service"], found["region"]) if found else ("", "")


def decoded(method: str, path: str, query: str, headers: Headers, body: bytes) -> Call:
    """Returns a request as its service's model reads it."""
    service, region = scope(headers)
    known = model(service)
    protocol = known.resolved_protocol  # botocore's choice, where there are several
    text = body.decode() if protocol in {"ec2", "query"} else ""
    values = MultiDict(
        (name, one)
        for name, many in parse_qs(f"{query}&{text}", keep_blank_values=True).items()
        for one in many
    )
    if "X-Amz-Target" in headers:
        name, parameters = headers["X-Amz-Target"].rpartition(".")[2], {}
    elif "Action" in values:
        name, parameters = values["Action"], {}
    else:
        name, parameters = _operation(service, method, path, query, headers)
    operation = known.operation_model(name)
    if protocol == "rest-xml":  # S3, whose requests moto reads itself
        return Call(service, region, name, {}, headers)
    request = {
        "body": body,
        "headers": headers,
        "method": method,
        "url_params": parameters,
        "url_path": path,
        "values": values,
    }
    asked = PROTOCOL_PARSERS[protocol](operation).parse(request)
    return Call(service, region, name, asked, headers)


def answer(call: Call, result: dict[str, Any]) -> Response:
    """Returns an answer as its service's model writes it.

    Raises:
        AssertionError: The model has no such answer.
    """
    operation = model(call.service).operation_model(call.operation)
    if operation.output_shape is not None:
        found = ParamValidator().validate(result, operation.output_shape)
        assert not found.has_errors(), f"{call.operation}: {found.generate_report()}"
        _check_words(result, operation.output_shape, call.operation)
    writer = SERIALIZERS[model(call.service).resolved_protocol](operation)
    written = writer.serialize(result)
    return Response(written["body"], written["status_code"], written["headers"])


def refused(call: Call, refusal: Refusal) -> Response:
    """Returns a refusal; one that the service's model does not name must be common to all."""
    known = model(call.service)
    protocol = known.resolved_protocol
    code, said = refusal.code, refusal.message
    if protocol.endswith("json"):
        body = f'{{"__type": "{code}", "message": "{said}"}}'
        headers = {"x-amzn-ErrorType": code, "Content-Type": "application/json"}
    elif protocol == "ec2":
        inner = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
        body = f"<Response><Errors>{inner}</Errors><RequestID>0</RequestID></Response>"
        headers = {"Content-Type": "text/xml"}
    else:
        inner = f"<Code>{code}</Code><Message>{said}</Message>"
        if protocol == "query":
            inner = f"<Type>Sender</Type>{inner}"
            body = f"<ErrorResponse><Error>{inner}</Error><RequestId>0</RequestId></ErrorResponse>"
        else:
            body = f"<Error>{inner}</Error>"
        headers = {"Content-Type": "text/xml"}
    return Response(body, refusal.status, headers)


class _Route(NamedTuple):
    """The route of an operation: its path, and the names that it needs in query and headers."""

    operation: str
    method: str
    path: re.Pattern[str]
    flags: tuple[re.Pattern[str], ...]
    lines: list[str]
    rank: int


@cache
def _routes(service: str) -> list[_Route]:
    """Returns the routes of a service, the more special ones first."""
    known, found = model(service), []
    for name in known.operation_names:
        operation = known.operation_model(name)
        uri, _, wanted = operation.http["requestUri"].partition("?")
        pattern = PLACE.sub(
            lambda one: f"(?P<{one[1]}>{'.+' if one[2] else '[^/]+'})", re.escape(uri)
        )
        flags, lines = _required(operation.input_shape)
        flags += [one for one in wanted.split("&") if one and not one.startswith("x-id")]
        rank = len(uri) + 10 * len(flags) + 10 * len(lines)
        marks = tuple(re.compile(rf"(^|&){re.escape(one)}(=|&|$)") for one in flags)
        path = re.compile(pattern + "/?")
        found.append(_Route(name, operation.http["method"], path, marks, lines, rank))
    return sorted(found, key=lambda one: -one.rank)


def _operation(
    service: str, method: str, path: str, query: str, headers: Headers
) -> tuple[str, dict[str, str]]:
    for route in _routes(service):
        if (
            route.method == method
            and (found := route.path.fullmatch(path))
            and all(flag.search(query) for flag in route.flags)
            and all(one in headers for one in route.lines)
        ):
            return route.operation, {k: unquote(v) for k, v in found.groupdict().items()}
    raise AssertionError(f"no operation for {method} {path}")


def _required(shape: Any) -> tuple[list[str], list[str]]:
    """Names in the query and in the headers that select the operation."""
    members = [shape.members[name] for name in shape.required_members] if shape else []
    where = {
        kind: [
            one.serialization["name"]
            for one in members
            if one.serialization.get("location") == kind
        ]
        for kind in ("querystring", "header")
    }
    return where["querystring"], where["header"]


def _check_words(value: Any, shape: Any, where: str) -> None:
    """Refuses a value that the enumeration of the model does not list."""
    if shape.type_name == "structure":
        for name, one in value.items():
            _check_words(one, shape.members[name], f"{where}.{name}")
    elif shape.type_name == "list":
        for one in value:
            _check_words(one, shape.member, where)
    elif shape.type_name == "string" and shape.enum:
        assert value in shape.enum, f"{where}: {value!r} is none of {shape.enum}"
