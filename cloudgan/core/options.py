"""Options: the flags and arguments of a command, read from its model, and values that a user gave for them.

`read` finds which option each word of a command line gives, `build` converts and checks the values.
"""

from __future__ import annotations

import functools
import math
import re
import types
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from cloudgan.core.errors import ConfigError, UnknownNameError, shorten, show
from cloudgan.core.flags import Flag, Keys, Options, Text, flag, listed
from cloudgan.core.ranges import Range, parse_whole
from cloudgan.core.user_text import check_text

Model = TypeVar("Model", bound=BaseModel)
_ANY_NUMBER = Range(-(2**53), 2**53)
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Option:
    """One flag or argument of a command.

    Attributes:
        name: In kebab-case.
        key: Field of the options, or dotted key of the file.
        owner: Field of the options that receives it by its key; "": it is the field itself.
        flag: What the declaration says.
        info: The field of pydantic.
    """

    name: str
    key: str
    owner: str
    flag: Flag
    info: FieldInfo

    @property
    def keyword(self) -> str:
        """Its name in Python and in job.yaml."""
        return self.name.replace("-", "_")

    @property
    def shown(self) -> str:
        """Its name in messages: ``--global-batch``, ``RUN`` or ``-- COMMAND``."""
        if self.flag.takes_words:
            return f"-- {self.name.upper()}"
        return self.argument_name if self.flag.is_positional else f"--{self.name}"

    @property
    def is_on(self) -> bool:
        """Whether it is a switch that is on, and so has a flag to turn it off."""
        return self.kinds == (bool,) and self.info.default is True

    @property
    def argument_name(self) -> str:
        """Its name in a usage line."""
        return self.name.upper().replace("-", "_")

    @property
    def help(self) -> str:
        """The whole line of help."""
        line = self.info.description or ""
        return line.replace("{names}", listed(self.flag.names())) if self.flag.names else line

    @functools.cached_property
    def kinds(self) -> tuple[Any, ...]:
        """Types of its value, without None."""
        hint = self.info.annotation
        if get_origin(hint) in {types.UnionType, Union}:
            return tuple(one for one in get_args(hint) if one is not types.NoneType)
        return (hint,)

    @functools.cached_property
    def text(self) -> Text | None:
        """How its text is read, if its type says so."""
        found = [
            *self.info.metadata,
            *(part for kind in self.kinds for part in getattr(kind, "__metadata__", ())),
        ]
        return next((one for one in found if isinstance(one, Text)), None)

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:
        """The valid words; empty: any."""
        if self.flag.names:
            return tuple(self.flag.names())
        kinds = [get_args(kind)[0] if self._is_list(kind) else kind for kind in self.kinds]
        return tuple(
            str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)
        )

    @property
    def is_list(self) -> bool:
        """Whether its value is a comma list, or several values of a repeated flag."""
        return self.text is None and any(map(self._is_list, self.kinds))

    @staticmethod
    def _is_list(kind: Any) -> bool:
        return get_origin(kind) is tuple and get_args(kind)[1:] == (...,)

    @property
    def is_switch(self) -> bool:
        """Whether it needs no value."""
        return bool in self.kinds

    @property
    def placeholder(self) -> str:
        """Placeholder of its value; empty for a switch."""
        if self.flag.placeholder or self.kinds == (bool,):
            return self.flag.placeholder
        if self.text:
            return self.text.placeholder
        if self.choices:
            return "|".join(self.choices)
        if self.is_list and not self.flag.is_repeated:
            return "A,B"
        return "N" if self.kinds == (int,) else "X" if float in self.kinds else "TEXT"

    @property
    def default(self) -> str:
        """The default in words; empty: none."""
        value = self.info.default
        if self.flag.default:
            return self.flag.default
        if value is None or isinstance(value, bool) or value in ((), "", {}) or callable(value):
            return ""
        if isinstance(value, tuple):
            return (self.text.joint if self.text else ",").join(
                f"{each:g}" if isinstance(each, float) else str(each) for each in value
            )
        return f"{value:g}" if isinstance(value, float) else str(value)

    @functools.cached_property
    def range(self) -> Range:
        """The numbers that its constraints allow."""
        low, high, above = _ANY_NUMBER.low, _ANY_NUMBER.high, False
        for one in self.info.metadata:
            above = above or getattr(one, "gt", None) is not None
            low = getattr(one, "gt", getattr(one, "ge", low))
            high = getattr(one, "lt", getattr(one, "le", high))
        return Range(low, high, above=above)

    def read(self, given: Any) -> Any:
        """Converts what a user gave: text of the command line, or a value of Python or YAML.

        Raises:
            ConfigError: It is not a value of this option.
        """
        if isinstance(given, PathLike):
            given = fspath(given)
        if isinstance(given, list | tuple) and self.text and self.text.joint:
            given = self.text.joint.join(f"{each}" for each in given)
        if isinstance(given, str):
            check_text(self.shown, given)
            return self._parse(given)
        if isinstance(given, list | tuple):
            for each in given:
                check_text(self.shown, str(each))
        if isinstance(given, bool) and not self.is_switch:
            raise ConfigError(f"{self.shown} needs a value: {self._example}")
        if isinstance(given, int | float) and not isinstance(given, bool):
            if self.text or {int, float}.isdisjoint(self.kinds):
                return self._parse(str(given))
            if float not in self.kinds and isinstance(given, float) and not given.is_integer():
                raise ConfigError(f"{self.shown} must be a whole number, got {given!r}")
            self.range.check(self.shown, given)
        if self.flag.is_repeated and isinstance(given, Mapping):
            return tuple(self._pair(key, value) for key, value in given.items())
        if isinstance(given, list | tuple):
            return tuple(fspath(each) if isinstance(each, PathLike) else each for each in given)
        return given

    def _pair(self, key: Any, value: Any) -> str:
        """Returns KEY=VALUE of a mapping in a file: KEY alone for no value, and true as YAML writes it."""
        if "=" in str(key) or isinstance(value, Mapping | list):
            raise ConfigError(
                f"{self.shown}: {shorten(str(key))!r} has no single value: give keys without = and one"
                " value each, such as {KEY: VALUE}"
            )
        text = str(value).lower() if isinstance(value, bool) else value
        return f"{key}" if value is None else f"{key}={text}"

    @property
    def _example(self) -> str:
        return f"--{self.name}={self.placeholder}"

    def _parse(self, text: str) -> Any:
        """A str stays as typed: ``2.10`` is not 2.1."""
        if not text and self.flag.can_be_empty:
            return text
        if not text.strip():
            raise ConfigError(self._empty(text))
        if self.text:
            return self.text.parse(self.shown, text)
        if self.is_list:
            words = (text,) if self.flag.is_repeated else tuple(text.split(","))
            return tuple(self._word(word.strip()) for word in words if word.strip())
        if self.is_switch:
            return self._switch(text)
        return self._word(text)

    def _word(self, text: str) -> Any:
        if self.choices:
            if text not in self.choices:
                folded = {word.casefold(): word for word in self.choices}
                if text.casefold() in folded:
                    return folded[text.casefold()]
                raise UnknownNameError(f"value of {self.shown}", text, self.choices)
            return text
        if self.kinds == (int,):
            return parse_whole(self.shown, text, self.range)
        if float in self.kinds:
            return self._number(text)
        return text

    def _number(self, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise ConfigError(f"{self.shown} must be a number, got {text[:80]!r}")
        self.range.check(self.shown, found)
        return found

    def _switch(self, text: str) -> bool | str | float:
        folded = text.lower()
        if float in self.kinds and not folded.isalpha():
            return self._number(text)
        if folded in _TRUE or folded in _FALSE:
            return folded in _TRUE
        if str in self.kinds:
            return text
        raise ConfigError(
            f"{self.shown} is a switch: --{self.name} or --no-{self.name}, got {text!r}"
        )

    def _empty(self, text: str) -> str:
        """A variable of the shell that is not set is the usual reason, as in ``--region=$REGION``."""
        if self.flag.is_positional:
            return f"{self.shown} is {text!r}, which is empty; give a value"
        bare = f", or {self.shown} without a value" if self.is_switch else ""
        needed = "" if self.flag.is_required else ", or omit the flag"
        return f"{self.shown}={text} is empty; give --{self.name}={self.placeholder or 'true'}{bare}{needed}"


@functools.cache
def options_of(model: type[BaseModel]) -> tuple[Option, ...]:
    """Returns the options of a command's model: arguments, then flags in the order of their declaration.

    Raises:
        TypeError: Two have one name.
    """
    found: list[Option] = []
    for field, info in model.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, Flag):
            found.append(_option(field, field, "", extra, info))
        elif isinstance(extra, Keys):
            found += _nested(extra.model, "", field, extra)
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise TypeError(f"{model.__name__} has a flag twice: {sorted(names)}")
    # Required arguments, then optional ones, then flags.
    return tuple(
        sorted(found, key=lambda one: not one.flag.is_required if one.flag.is_positional else 2)
    )


@functools.cache
def flags_in(model: type[BaseModel]) -> tuple[Option, ...]:
    """Returns the flags of a file's model and of its sections, each with its dotted key."""
    return tuple(_nested(model, "", "", Keys(model, ("",), True, True, True)))


def _option(field: str, key: str, owner: str, extra: Flag, info: FieldInfo) -> Option:
    name = extra.name or field.removesuffix("_").replace("_", "-")
    return Option(name, key, owner, extra, info)


def _nested(model: type[BaseModel], path: str, owner: str, keys: Keys) -> Iterable[Option]:
    for field, info in model.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, Flag):
            extra = replace(
                extra,
                is_positional=extra.is_positional and keys.has_positional,
                is_on_screen=extra.is_on_screen and keys.is_on_screen,
            )
            option = _option(field, f"{path}{field}", owner, extra, info)
            if option.key.startswith(keys.prefixes) and (keys.has_local or not extra.is_local):
                yield option
        elif isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _nested(info.annotation, f"{path}{field}.", owner, keys)


def build(model: type[Model], given: Mapping[str, Any], *, command: str, source: str = "") -> Model:
    """Returns a command's options from text or values by name; None: not given. `source`: the file of the keys.

    Raises:
        ConfigError: A name is unknown, a value is not valid, or an argument is missing.
    """
    prefix = f"{source}: " if source else ""
    values: dict[str, Any] = {}
    called = {name: one for one in options_of(model) for name in (one.flag.letter, one.name)}
    for name, value in given.items():
        option = called.get(name.replace("_", "-"))
        if option is None:
            kind = f"key of {source}" if source else f"flag of `{command}`"
            known = [one.keyword if source else f"--{one.name}" for one in options_of(model)]
            raise UnknownNameError(kind, name if source else f"--{name}", known)
        if value is None:
            continue
        try:
            converted = option.read(value)
        except ConfigError as error:
            raise ConfigError(f"{prefix}{error}") from error
        if option.owner:
            values.setdefault(option.owner, {})[option.key] = converted
        else:
            values[option.key] = converted
    missing = [
        one.shown for one in options_of(model) if one.flag.is_required and one.key not in values
    ]
    if missing:
        raise ConfigError(f"`{command}` needs {' and '.join(missing)}; see `{command} --help`")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{prefix}{_explained(model, error)}") from error


def _explained(model: type[BaseModel], error: ValidationError) -> str:
    """Says in our words what pydantic found first."""
    problem = error.errors(include_url=False)[0]
    message = str(problem["msg"]).removeprefix("Value error, ")
    field = str(problem["loc"][0]) if problem["loc"] else ""
    option = next((one for one in options_of(model) if one.key == field), None)
    if option is None:
        return message
    if problem["type"] == "value_error":
        return f"{option.shown}: {message}"
    return f"{option.shown}={show(problem['input'])} is not valid: give {option.placeholder or 'true or false'}"


class Common(Options):
    """The flags of every command."""

    json_: bool = flag(False, "print the result as one JSON object", "Output")
    verbose: bool = flag(False, "show the basis of the result as well", "Output", letter="v")
    traceback: bool = flag(False, "show where in the program an error arose", "Output")


Given = dict[str, str | list[str]]
"""Text by name of the option: a list for a repeated flag, and for the words after ``--``."""


def read(command: str, model: type[BaseModel], words: Iterable[str]) -> tuple[Given, Given]:
    """Assigns the words behind a command's name to options: those of the model, and those of every command.

    Raises:
        ConfigError: A flag is unknown, has no value or is given twice; an argument is superfluous.
    """
    own = options_of(model)
    known = {one.name: one for one in (*own, *options_of(Common))}
    letters = {one.flag.letter: one for one in known.values() if one.flag.letter}
    found: Given = {}
    pending, only_arguments = deque(words), False
    while pending:
        word = pending.popleft()
        if word == "--" and not only_arguments:
            only_arguments = True
            if pending and (last := next((one for one in own if one.flag.takes_words), None)):
                found[last.name] = list(pending)
                break
            continue
        if only_arguments or not looks_like_flag(word):
            option, text = _argument(command, own, word, found), word
        else:
            option, text = _flag(command, known, letters, word, pending)
        if option.flag.is_repeated:
            found[option.name] = [*found.get(option.name, ()), text]
        elif option.name in found:
            raise ConfigError(f"{option.shown} was given twice; give it once")
        else:
            found[option.name] = text
    common = {one.name: found.pop(one.name) for one in options_of(Common) if one.name in found}
    return found, common


def _argument(
    command: str, own: Sequence[Option], word: str, found: Mapping[str, object]
) -> Option:
    places = [one for one in own if one.flag.is_positional]
    for option in places:
        if option.name not in found or option.flag.is_repeated:
            return option
    if any(one.flag.takes_words for one in own):
        raise ConfigError(f"write -- before the command of `{command}`: -- {word}")
    name = word.partition("=")[0].replace("_", "-")
    taken = " ".join(one.argument_name for one in places) or "flags only"
    is_flag = any(one.name == name for one in own)
    raise ConfigError(
        f"`{command}` takes {taken}, and {word!r} is left over."
        + (f" Did you mean '--{word}'?" if is_flag else f" See `{command} --help`.")
    )


def _flag(
    command: str,
    known: Mapping[str, Option],
    letters: Mapping[str, Option],
    word: str,
    pending: deque[str],
) -> tuple[Option, str]:
    written, equals, text = word.partition("=")
    name = written.removeprefix("--").replace("_", "-")
    option = letters.get(written[1:]) if len(written) == len("-f") else known.get(name)
    if option is None:
        denied = known.get(name.removeprefix("no-"))
        if denied and denied.is_switch and name.startswith("no-") and not equals:
            return denied, "false"
        no = "no-" if name.startswith("no-") else ""
        names = [f"--{no if one.is_on else ''}{one.name}" for one in known.values()]
        names += ["--help", "--help-all"]
        raise UnknownNameError(f"flag of `{command}`", written, names)
    if equals:
        return option, text
    if option.is_switch:
        follows = pending and pending[0].lower() in {"true", "false"}
        return option, pending.popleft() if follows else "true"
    if not pending or looks_like_flag(pending[0]):
        raise ConfigError(f"{written} needs a value: --{option.name}={option.placeholder}")
    return option, pending.popleft()


def looks_like_flag(word: str) -> bool:
    """Whether a word is a flag: it begins with a dash, and is neither that alone nor a number."""
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)
