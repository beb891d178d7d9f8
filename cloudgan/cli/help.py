"""Help pages of a command, made from its model: one screen of 80 columns, or every flag by topic."""

from __future__ import annotations

import inspect
import pydoc
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from cloudgan.core.options import Common, Option, options_of

_EXAMPLES = re.compile(r"^Examples:\s*$", re.MULTILINE)
_COLUMNS, _TOPIC, _NAME = 80, 9, 23
_TOPICS = (
    "Data",
    "Where",
    "Model",
    "Search",
    "Folds",
    "Networks",
    "Grid",
    "Length",
    "Batch",
    "Quality",
    "Limits",
)
"""Topics that come first, in this order; the others follow in the order of their flags."""
_FEW = 12
"""A command with at most so many flags has all of them on its screen."""


def screen(command: str, model: type[BaseModel]) -> str:
    """Returns the short help page: at most 24 lines of 80 columns."""
    text, examples = _parts(model)
    options = options_of(model)
    flags = [one for one in options if not one.flag.is_positional and not one.flag.takes_words]
    shown = flags if len(flags) <= _FEW else [one for one in flags if one.flag.is_on_screen]
    lines = [*textwrap.wrap(text.partition("\n\n")[0], _COLUMNS), _usage(command, options)]
    lines += [f"  {example}" for example in examples]
    for one in options:
        if one.flag.is_positional or one.flag.takes_words:
            lines += _row(one.argument_name, "", _first_clause(one))
    for topic, group in _by_topic(shown):
        for number, one in enumerate(group):
            lines += _row(topic if number == 0 else "", _short_name(one), _first_clause(one))
    hidden = len(flags) - len(shown)
    every = f" {len(flags)} flags" if hidden else ""
    lines += _row(
        "All",
        "",
        f"--json  --verbose, -v: the basis  --traceback  --help-all:{every or ' details'}",
    )
    return "\n".join(lines)


def every_flag(command: str, model: type[BaseModel]) -> str:
    """Returns the long help page: the whole text, and all flags by topic with their defaults."""
    text, examples = _parts(model)
    options = [*options_of(model), *options_of(Common)]
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        plain = " ".join(paragraph.split())
        lines += [*textwrap.wrap(plain, _COLUMNS, break_on_hyphens=False), ""]
    lines.append(_usage(command, options_of(model)))
    arguments = [one for one in options if one.flag.is_positional or one.flag.takes_words]
    flags = [one for one in options if one not in arguments]
    for title, group in ([("Arguments", arguments)] if arguments else []) + _by_topic(flags):
        lines += ["", f"{title or 'Flags'}:"]
        for one in group:
            name = one.argument_name if one in arguments else _long_name(one)
            lines += _item(name, _whole(one))
    if examples:
        lines += ["", "Examples:", *(f"  {example}" for example in examples)]
    return "\n".join(lines)


def show(page: str) -> None:
    """Prints a page; on a terminal that is too small for it, in the user's pager."""
    rows = shutil.get_terminal_size().lines
    if sys.stdout.isatty() and page.count("\n") + 1 > rows:
        pydoc.pager(page)
    else:
        print(page)


def _parts(model: type[BaseModel]) -> tuple[str, list[str]]:
    text, *rest = _EXAMPLES.split(inspect.getdoc(model) or "", maxsplit=1)
    examples = [line.strip() for line in (rest[0] if rest else "").splitlines() if line.strip()]
    return text.strip(), examples


def _usage(command: str, options: Sequence[Option]) -> str:
    places = "".join(
        f" {one.argument_name}"
        if one.flag.is_required
        else f" [{one.flag.placeholder + ' ...' if one.flag.is_repeated else one.argument_name}]"
        for one in options
        if one.flag.is_positional
    )
    words = next((one for one in options if one.flag.takes_words), None)
    last = "" if words is None else f" -- {words.argument_name}"
    last = f" [{last.strip()} ...]" if words and not words.flag.is_required else last
    return f"Usage: {command}{places} [FLAGS]{last}"


def _by_topic(options: Iterable[Option]) -> list[tuple[str, list[Option]]]:
    found: dict[str, list[Option]] = {}
    for one in options:
        found.setdefault(one.flag.topic, []).append(one)
    known = {topic: number for number, topic in enumerate(_TOPICS)}
    known[""] = -1  # beneath a topic its rows would look like that topic's
    return sorted(found.items(), key=lambda each: known.get(each[0], len(known)))


def _first_clause(option: Option) -> str:
    """The help until its first semicolon, with the default if it fits."""
    room = _COLUMNS - _TOPIC - (0 if option.flag.is_positional else _NAME)
    text = (option.info.description or "").partition(";")[0].rstrip(".")
    text = _denied(option) + text.replace("{names}", ", ".join(option.choices))
    if len(text) > room:  # an example or an aside is in the long page
        ends = [found.start() for found in re.finditer(r"(, such as|: | \(|, )", text)]
        text = text[: max((end for end in ends if end <= room), default=len(text))]
    default = f" [{option.default}]" if option.default else ""
    words = _words(option, text)
    if option.flag.is_positional and words:
        return text + words + default
    fitting = (
        one for one in (text + words + default, text + words, text + default) if len(one) <= room
    )
    return next(fitting, text)


def _words(option: Option, text: str) -> str:
    """The valid words, where neither the name nor the text has them."""
    if option.flag.names or any(word in text for word in option.choices):
        return ""
    is_named = not option.flag.is_positional and "|" in _short_name(option)
    return f": {', '.join(option.choices)}" if option.choices and not is_named else ""


def _denied(option: Option) -> str:
    """What stands before the help of a switch that is on."""
    return "do not " if option.is_on else ""


def _short_name(option: Option) -> str:
    name = _long_name(option)
    if len(name) >= _NAME and option.choices:
        return f"--{option.name}={option.name[0].upper()}"
    return name


def _long_name(option: Option) -> str:
    letter = f", -{option.flag.letter}" if option.flag.letter else ""
    if option.kinds == (bool,):
        return f"--{'no-' if _denied(option) else ''}{option.name}{letter}"
    value = option.placeholder
    return f"--{option.name}[={value}]" if option.is_switch else f"--{option.name}={value}{letter}"


def _whole(option: Option) -> str:
    needed = " (required)" if option.flag.is_required and not option.flag.is_positional else ""
    default = f" [default: {option.default}]" if option.default else ""
    several = " Can be repeated." if option.flag.is_repeated else ""
    words = _words(option, option.help) if option.flag.is_positional else ""
    text = f"{_denied(option)}{option.help.rstrip('.')}{words}"
    return f"{text}{'.' * bool(several)}{several}{needed}{default}"


def _row(topic: str, name: str, text: str) -> list[str]:
    """One line of a screen, or more where the text is long."""
    start = f"{topic:<{_TOPIC}}{name:<{_NAME}}" if name else f"{topic:<{_TOPIC}}"
    if name and len(name) >= _NAME:
        start = f"{topic:<{_TOPIC}}{name}  "
    wrapped = textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=start,
        subsequent_indent=" " * (_TOPIC + (_NAME if name else 0)),
        break_on_hyphens=False,
    )
    return wrapped or [start.rstrip()]


def _item(name: str, text: str) -> list[str]:
    space = " " * 26
    lines = textwrap.wrap(text, _COLUMNS - len(space), break_on_hyphens=False) or [""]
    if len(name) > len(space) - 4:
        return [f"  {name}", *(space + line for line in lines if line)]
    return [f"  {name:<24}{lines[0]}".rstrip(), *(space + line for line in lines[1:])]
