"""Writes docs/commands.md, docs/reference.md and the manual page from the models of commands and documents.

`make golden` runs it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cloudgan.cli.commands import reference as schemas
from cloudgan.cli.help import every_flag
from cloudgan.cli.program import functions
from cloudgan.core.command import model_of
from cloudgan.launch.operations.launch_options import job_schema

_COMMANDS = """\
# Commands

`cloudgan COMMAND --help` is one screen, `--help-all` is what stands here. Flags are written in kebab-case; the form with
underscores is accepted too. A command line is parsed completely before anything runs: a misspelt flag starts nothing and names
the nearest valid one. In Python each command is a function with the same names: `cloudgan.train("showers.h5", epochs=3)`.
This page is made from the program (`make golden`).
"""
_EXIT_CODES = """\
## Exit codes

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | the run failed, the disk is full, or standard output cannot be written |
| 2 | invalid input; nothing was started, and no file was changed |
| 3 | confirmation required |
| 4 | resources are left, or not proven gone: a deletion failed, or a zone, region or service did not answer |
| 5 | no capacity, no quota or no matching offer |
| 6 | over budget |
| 7 | a requested physics gate failed |
| 75 | stopped by SIGTERM, after a checkpoint where there is one, or a pod whose store or login failed for ten minutes; try again |
| 76 | no progress: three restarts without a newer checkpoint |
| 130 | interrupted by Ctrl-C |

`exec` and `shell` exit with the code of the remote command.

An error is one line on standard error; with `--json` it is an object with `error` and `exit_code` on standard output.
`cloudgan ... | head` ends with 1 without a message. Messages that standard error cannot take are dropped. Characters that
the terminal cannot show are printed as `?`.
"""
_REFERENCE = """\
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
_MANUAL = r"""
.TH CLOUDGAN 1
.SH NAME
cloudgan \- trains calorimeter GANs on any cloud, and prices and validates every run
.SH SYNOPSIS
.B cloudgan
.I COMMAND
[\fIARGUMENTS\fR] [\fIFLAGS\fR]
.SH DESCRIPTION
cloudgan trains generative adversarial networks that simulate calorimeter showers, on this machine, a Kubernetes or
Slurm cluster, Google Cloud, AWS or Azure. \fBcloudgan demo\fR is a tour without an account;
\fBcloudgan\fR \fICOMMAND\fR \fB\-\-help\fR is one screen, \fBcloudgan help\fR \fITOPIC\fR one on a topic.
.SH COMMANDS
""".lstrip()


def commands() -> str:
    """Returns docs/commands.md."""
    parts = [_COMMANDS]
    for name, function in sorted(functions().items()):
        text = every_flag(f"cloudgan {name}", model_of(function))
        lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
        parts.append(f"## `cloudgan {name}`\n\n{lines}\n")
    return "\n".join([*parts, _EXIT_CODES])


def reference() -> str:
    """Returns docs/reference.md."""
    parts = [_REFERENCE, "## job.yaml\n\nThe flags of `cloudgan deploy`, with underscores.\n"]
    parts.append(_table(job_schema()))
    parts.append(
        "## run.yaml\n\nKeys of `train --config`; `cloudgan init run` writes a commented file.\n"
    )
    parts += _sections(TypeAdapter(schemas._DOCUMENTS["run.yaml"]).json_schema())
    for name, kind in schemas._DOCUMENTS.items():
        if name not in {"run.yaml", "record.jsonl"}:
            parts.append(f"## {name}\n")
            parts.append(_table(TypeAdapter(kind).json_schema()))
    parts.append("## record.jsonl\n\nEach line has a `kind`.\n")
    parts += _lines(TypeAdapter(schemas._DOCUMENTS["record.jsonl"]).json_schema())
    printed = ", ".join(f"`{name}`" for name, one in functions().items() if schemas._results(one))
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


def manual() -> str:
    """Returns the manual page of the program."""
    parts = [_MANUAL]
    for name, function in sorted(functions().items()):
        model = model_of(function)
        usage = next(
            line
            for line in every_flag(f"cloudgan {name}", model).splitlines()
            if line.startswith("Usage:")
        )
        about = inspect.getdoc(model).partition("\n")[0]
        parts.append(f".TP\n.B {_escaped(usage.removeprefix('Usage: '))}\n{_escaped(about)}\n")
    parts.append(".SH EXIT STATUS\n")
    for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", _EXIT_CODES, re.MULTILINE):
        parts.append(f".TP\n.B {code}\n{_escaped(meaning)}\n")
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


PAGES = {"commands.md": commands, "reference.md": reference, "shell/cloudgan.1": manual}
"""How each page below docs/ is made."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(__file__).parents[2] / "docs" / name).write_text(page(), encoding="utf-8")
