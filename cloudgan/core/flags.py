"""Flags: fields of frozen pydantic models.

A field made by `flag` or `argument` is the only declaration of a fact that a user gives: its type, range, default
and line of help. The command line, both help pages, job.yaml, its JSON schema, the keywords of the Python functions
with their documentation, docs/commands.md and the shell completion are derived from it by `core.options`.

A model whose own values are laid over a file has a field made by `keys_of`: the flagged fields of the file's model
become flags of the command, and the field receives what was given by dotted key, such as ``training.epochs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.durations import parse_duration
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.ranges import MAX_STEP, Range, parse_range, parse_whole


@dataclass(frozen=True)
class Text:
    """Metadata of an `Annotated` type: how its text is read.

    Attributes:
        parse: Takes the flag as shown, and the text.
        placeholder: Of the value in a help page.
        joint: What stands between the items of a value of several.
    """

    parse: Callable[[str, str], Any]
    placeholder: str
    joint: str = ""


@dataclass(frozen=True)
class Flag:
    """What a flagged field says beside its type and default.

    Attributes:
        topic: Its group in a help page.
        is_on_screen: Whether the short help page has it.
        name: In kebab-case; "" is the field's own name.
        placeholder: Of its value; "" follows from the type.
        default: The default in words, where the field's own says nothing.
        is_positional: Whether it can also be given without its name.
        is_required: Whether a command needs it.
        is_repeated: Whether it can be given several times, each time with one value.
        takes_words: Whether it receives all words after ``--``.
        is_local: Whether it is for a run on this machine only.
        can_be_empty: Whether an empty value removes that of a file.
        letter: One letter that means the same, such as ``f`` for `-f`.
        names: Returns the valid words and what each one means; ``{names}`` in the help is their list.
    """

    topic: str = ""
    is_on_screen: bool = False
    name: str = ""
    placeholder: str = ""
    default: str = ""
    is_positional: bool = False
    is_required: bool = False
    is_repeated: bool = False
    takes_words: bool = False
    is_local: bool = False
    can_be_empty: bool = False
    letter: str = ""
    names: Callable[[], Mapping[str, str]] | None = None

    def __call__(self, schema: dict[str, Any]) -> None:
        """Adds the valid words to the JSON schema of the field; pydantic calls it."""
        if self.names:
            schema["enum"] = list(self.names())
            schema["description"] = schema["description"].replace("{names}", listed(self.names()))


@dataclass(frozen=True)
class Keys:
    """Whose flags a field of `keys_of` has."""

    model: type[BaseModel]
    prefixes: tuple[str, ...]
    has_local: bool
    has_positional: bool
    is_on_screen: bool

    def __call__(self, schema: dict[str, Any]) -> None:
        """Changes nothing, as that of `Flag`."""


class Options(BaseModel):
    """Base of the options of a command. Its docstring is the help page: a line, text, and examples."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        defer_build=True,
    )


def listed(names: Mapping[str, str]) -> str:
    """Returns words and what they mean as a list."""
    return ", ".join(f"{name} ({text})" if text else name for name, text in names.items())


def flag(
    default: Any,
    line: str,
    topic: str = "",
    *,
    screen: bool = False,
    words: str = "",
    **details: Any,
) -> Any:
    """Returns the field of a flag.

    Args:
        default: Its value if it is not given.
        line: Of help; what stands before the first semicolon is its text in the short help page.
        topic: Its group.
        screen: Whether the short help page has it.
        words: The default in words.
        **details: Other attributes of `Flag`, and constraints of pydantic's `Field`.
    """
    own = {key: details.pop(key) for key in list(details) if key in Flag.__dataclass_fields__}
    extra = Flag(topic, is_on_screen=screen, default=words, **own)
    return Field(default, description=line, json_schema_extra=extra, **details)


def argument(line: str, default: Any = ..., **details: Any) -> Any:
    """Returns the field of an argument, which is given without a name, or by its name as a flag."""
    is_required = default is ...
    shown = None if is_required else default
    return flag(shown, line, is_positional=True, is_required=is_required, **details)


def keys_of(
    model: type[BaseModel],
    *,
    keys: tuple[str, ...] = (),
    local: bool = True,
    positional: bool = True,
    screen: bool = True,
) -> Any:
    """Returns a field whose flags are those of `model` and of its sections; it receives values by dotted key.

    Args:
        model: Of a file, such as run.yaml.
        keys: Beginnings of the dotted keys that are flags of the command; empty: all.
        local: Whether flags of a run on this machine are among them.
        positional: Whether its arguments may be given without a name.
        screen: Whether the short help page has those that are marked for it.
    """
    extra = Keys(model, keys or ("",), local, positional, screen)
    return Field(default_factory=dict, json_schema_extra=extra)


def _step(shown: str, text: str) -> int | Literal["best"]:
    if text == "best":
        return "best"
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(
            f"{shown}={text}: expected the number of a step, or best; default: the newest"
        )
    return parse_whole(shown, text, Range(0, MAX_STEP))


RANGE = Text(parse_range, "LOW:HIGH", joint=":")
"""Two floats, low and high."""
DURATION = Text(lambda shown, text: parse_duration(text, shown), "TIME")
"""Seconds as a float."""
FILE = Text(lambda shown, text: local_path(text, source=shown), "FILE")
"""A `Path` of this machine."""
STEP = Text(_step, "N|best")
"""The number of a checkpoint, or ``best``."""
