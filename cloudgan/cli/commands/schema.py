"""`cloudgan schema`: JSON schemas of the documents, and of what each command prints with --json."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from cloudgan.cli.emit import print_json
from cloudgan.core.command import body_of, command
from cloudgan.core.errors import UnknownNameError
from cloudgan.core.flags import Options, argument
from cloudgan.launch.operations.launch_options import job_schema
from cloudgan.reports.result import Result
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import QualityRow
from cloudgan.schema.record import Line

_DOCUMENTS: dict[str, Any] = {
    "run.yaml": RunConfig,
    "plan.json": Plan,
    "record.jsonl": Line,
    "launch.json": Launch,
    "cost.json": CostReport,
    "heartbeat.json": Heartbeat,
    "quality.json": QualityRow,
}


class SchemaOptions(Options):
    """Prints the JSON schema of a document, or of what a command prints with --json.

    The documents are job.yaml, run.yaml, plan.json, launch.json, record.jsonl, cost.json, heartbeat.json and
    quality.json.

    Examples:
        cloudgan schema job.yaml
        cloudgan schema status
    """

    name: tuple[str, ...] = argument("a document, or a command such as status", is_repeated=True)


@command
def schema(options: SchemaOptions) -> None:
    """Prints the schema."""
    name = " ".join(options.name)
    if name == "job.yaml":
        return print_json(job_schema())
    if name in _DOCUMENTS:
        return print_json(TypeAdapter(_DOCUMENTS[name]).json_schema())
    from cloudgan.cli.program import functions  # it names this module

    found = {key: kinds for key, one in functions().items() if (kinds := _results(one))}
    if name not in found:
        raise UnknownNameError("document or command", name, ["job.yaml", *_DOCUMENTS, *found])
    kind: Any = functools.reduce(operator.or_, found[name])
    return print_json(TypeAdapter(kind).json_schema(mode="serialization"))


def _results(function: Callable[..., Any]) -> list[type[Result]]:
    """Returns the results of a command: one, or those that it chooses from."""
    hint = get_type_hints(body_of(function)).get("return")
    kinds = [one for one in (get_args(hint) or (hint,)) if isinstance(one, type)]
    return [one for one in kinds if issubclass(one, Result) and one is not Result]
