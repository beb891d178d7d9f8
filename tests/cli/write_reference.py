"""Writes docs/reference.md from the models of the documents; `make golden` runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cloudgan.cli.commands import reference as command
from cloudgan.cli.program import functions
from cloudgan.launch.operations.launch_options import job_schema

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
_HEAD = """\
# Reference: job.yaml, run.yaml, files, JSON

Commands, their flags and the exit codes: [commands.md](commands.md). This page is made from the program (`make golden`);
`cloudgan schema NAME` prints the whole JSON schema of a file, or of what a command prints with `--json`.

| file of runs/NAME/ | content |
| --- | --- |
| `run.yaml` | the configuration; the same command resumes by it |
| `plan.json` | what `deploy` sends, and why this offer |
| `launch.json` | attempts, nodes, resources, with their times |
| `record.jsonl` | a line per epoch and event |
| `checkpoints/step-N.npz` | weights and optimizer states after N steps |
| `report.html` | the page of the run |
| `verdict.json` | the verdict of `validate` |
| `cost.json` | the cost report |
| `heartbeat.json` | what a worker does now |
"""


def page() -> str:
    """Returns docs/reference.md."""
    parts = [_HEAD, "## job.yaml\n\nThe flags of `cloudgan deploy`, with underscores.\n"]
    parts.append(_table(job_schema()))
    parts.append(
        "## run.yaml\n\nKeys of `train --config`; `cloudgan init run` writes a commented file.\n"
    )
    parts += _sections(TypeAdapter(command._DOCUMENTS["run.yaml"]).json_schema())
    for name, kind in command._DOCUMENTS.items():
        if name not in {"run.yaml", "record.jsonl"}:
            parts.append(f"## {name}\n")
            parts.append(_table(TypeAdapter(kind).json_schema()))
    parts.append("## record.jsonl\n\nEach line has a `kind`.\n")
    parts += _lines(TypeAdapter(command._DOCUMENTS["record.jsonl"]).json_schema())
    printed = ", ".join(f"`{name}`" for name, one in functions().items() if command._results(one))
    parts.append(
        f"## Results with --json\n\nWith a schema each (`cloudgan schema NAME`): {printed}.\n"
    )
    return "\n".join(parts)


def _sections(schema: dict[str, Any]) -> Iterator[str]:
    """Yields a table of the keys of a document, and one of each of its sections."""
    yield _table(schema)
    for key, one in schema["properties"].items():
        inner = _inner(one, schema)
        if inner:
            yield f"### `{key}:`\n"
            yield _table(inner)


def _inner(one: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the schema of a section, if a key is one."""
    names = re.findall(r"#/\$defs/(\w+)", str(one))
    found = [schema["$defs"][name] for name in names]
    return next((each for each in found if "properties" in each), None)


def _lines(schema: dict[str, Any]) -> Iterator[str]:
    """Yields a table of the kinds of lines of a record, with the keys that each has beside its kind."""
    yield "| kind | keys |\n| --- | --- |"
    for name in re.findall(r"#/\$defs/(\w+)", str(schema.get("oneOf") or schema.get("anyOf"))):
        one = schema["$defs"][name]
        kind = one["properties"].get("kind", {}).get("const", name)
        keys = ", ".join(f"`{key}`" for key in one["properties"] if key != "kind")
        yield f"| `{kind}` | {keys} |"
    yield ""


def _table(schema: dict[str, Any]) -> str:
    """Returns a table of the keys of an object."""
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, one in schema["properties"].items():
        default = "" if one.get("default") is None else f"`{one['default']}`"
        text = _description(one).replace("|", "\\|").replace("\n", " ").partition(". ")[0]
        rows.append(f"| `{key}` | {_type(one)} | {default} | {text} |")
    return "\n".join(rows) + "\n"


def _description(one: dict[str, Any]) -> str:
    """Returns the description of a key, or that of the first of its types that has one."""
    found = [one, *one.get("anyOf", ())]
    return next((each["description"] for each in found if "description" in each), "")


def _type(one: dict[str, Any]) -> str:
    """Returns the type of a key in a few words."""
    if "enum" in one:
        return " or ".join(f"`{each}`" for each in one["enum"])
    if "const" in one:
        return f"`{one['const']}`"
    if "$ref" in one:
        return "section"
    inner = one.get("anyOf") or one.get("oneOf") or one.get("allOf")
    if inner:
        found = [_type(each) for each in inner if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(found))
    if one.get("type") == "array":
        items = one.get("items")
        return f"list of {_type(items)}" if isinstance(items, dict) and items else "list"
    return str(one.get("type", "any"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
