"""Help pages: of the program, and of a command from its docstring and annotations."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from cloudgan.cli.options.signature import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.cli.options.signature import Parameter, Signature

_SECTION = re.compile(r"^(Args|Examples?|Raises|Returns):\s*$", re.MULTILINE)
_ITEM = re.compile(r"^    (\w+): ?(.*)$")
_WIDEST, _NARROWEST, _COLUMN = 100, 60, 26


def program_page(program: str, summary: str, commands: Mapping[str, str]) -> str:
    """Returns the help page of a program: one line per command."""
    lines = [f"{program}: {summary}", "", f"Usage: {program} COMMAND [FLAGS]", "", "Commands:"]
    for name, line in commands.items():
        lines += _row(name, line)
    return "\n".join([*lines, "", *_common_flags(program)])


def grouped_page(program: str, summary: str, groups: Mapping[str, Mapping[str, str]]) -> str:
    """Returns the help page of a program with many commands: groups in two columns, 80x24.

    Args:
        program: Its name.
        summary: What it does.
        groups: Summary of each command (at most 24 characters) by group title.
    """
    lines = [f"{program}: {summary}", f"Usage: {program} COMMAND [FLAGS], or {program} --version"]
    for title, commands in groups.items():
        lines.append(f"{title}:")
        cells = [f"{name:<14}{text}" for name, text in commands.items()]
        half = (len(cells) + 1) // 2
        right = [*cells[half:], ""]
        lines += [f"  {a:<40}{b}".rstrip() for a, b in zip(cells[:half], right, strict=False)]
    return "\n".join([*lines, *_common_flags(program)])


def _common_flags(program: str) -> list[str]:
    return [
        f"`{program} COMMAND --help` lists its flags; all have --json and --traceback.",
    ]


def command_page(function: Callable[..., Any], signature: Signature) -> str:
    """Returns the help page of a command."""
    from cloudgan.schema.presets import (
        list_presets,  # the help page of the program needs no pydantic
    )

    sections = _sections(inspect.getdoc(function) or "")
    texts = {
        name: text.replace("{presets}", list_presets())
        for name, text in _items(sections.get("Args", "")).items()
    }
    arguments = "".join(
        f" {p.shown}" if p.default is REQUIRED else f" [{p.shown}]" for p in signature.arguments
    )
    flags = " [FLAGS]" if signature.flags else ""
    lines = [*_paragraphs(sections[""]), "", f"Usage: {signature.command}{arguments}{flags}"]
    for title, parameters in (("Arguments", signature.arguments), ("Flags", signature.flags)):
        if parameters:
            lines += ["", f"{title}:"]
        for parameter in parameters:
            lines += _row(_name(parameter), texts.get(parameter.name, "") + _default(parameter))
    example = sections.get("Example", sections.get("Examples"))
    if example:
        lines += ["", "Examples:", example.strip("\n")]
    return "\n".join(lines)


def summary_line(docstring: str | None) -> str:
    """Returns the first line of a docstring."""
    return (docstring or "").strip().partition("\n")[0]


def _sections(doc: str) -> dict[str, str]:
    """Splits a docstring by section title; the text before the first section is under ""."""
    parts = _SECTION.split(doc)
    return {"": parts[0].strip()} | dict(zip(parts[1::2], parts[2::2], strict=True))


def _items(section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = None
    for line in section.splitlines():
        item = _ITEM.match(line)
        if item:
            name = item[1]
            found[name] = item[2]
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def _name(parameter: Parameter) -> str:
    if not parameter.is_flag:
        return parameter.shown
    if parameter.kind is bool:
        return f"--no-{parameter.word}" if parameter.default is True else parameter.shown
    if parameter.value_is_optional:
        return f"{parameter.shown}[={parameter.placeholder}]"
    return f"{parameter.shown}={parameter.placeholder}"


def _default(parameter: Parameter) -> str:
    if parameter.default is REQUIRED:
        return " (required)" if parameter.is_flag else ""
    if parameter.default is None or parameter.is_switch or parameter.default == "":
        return ""
    return f" [default: {parameter.default}]"


def _row(name: str, text: str) -> list[str]:
    """Two columns: name and text; a long name gets a line of its own."""
    space = " " * _COLUMN
    lines = textwrap.wrap(text.strip(), _width() - _COLUMN, break_on_hyphens=False) or [""]
    if len(name) > _COLUMN - 4:
        return [f"  {name}", *(space + line for line in lines if line)]
    return [f"  {name:<{_COLUMN - 2}}{lines[0]}".rstrip(), *(space + line for line in lines[1:])]


def _paragraphs(text: str) -> list[str]:
    found: list[str] = []
    for paragraph in text.split("\n\n"):
        found += ["", *textwrap.wrap(" ".join(paragraph.split()), _width())]
    return found[1:]


def _width() -> int:
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
