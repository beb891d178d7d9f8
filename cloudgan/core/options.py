"""Options: the flags and arguments of a command, read from its model, and values that a user gave for them."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from cloudgan.core.errors import ConfigError, UnknownNameError, shorten, show
from cloudgan.core.flags import Flag, Keys, Text, listed
from cloudgan.core.ranges import Range, parse_whole
from cloudgan.core.user_text import check_text

Model = TypeVar("Model", bound=BaseModel)
_ANY_NUMBER = Range(-(2**53), 2**53)
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
    return tuple(sorted(found, key=_place))


@functools.cache
def flags_in(model: type[BaseModel]) -> tuple[Option, ...]:
    """Returns the flags of a file's model and of its sections, each with its dotted key."""
    return tuple(_nested(model, "", "", Keys(model, ("",), True, True, True)))


def _place(option: Option) -> int:
    """Required arguments, then optional ones, then flags."""
    return 2 if not option.flag.is_positional else not option.flag.is_required


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


def find_option(model: type[BaseModel], word: str) -> Option | None:
    """Returns the option that is called `word` on the command line, in Python or in a file."""
    name = word.replace("_", "-")
    return next((one for one in options_of(model) if name in {one.name, one.flag.letter}), None)


def build(model: type[Model], given: Mapping[str, Any], *, command: str, source: str = "") -> Model:
    """Returns a command's options from text or values by name; None: not given. `source`: the file of the keys.

    Raises:
        ConfigError: A name is unknown, a value is not valid, or an argument is missing.
    """
    prefix = f"{source}: " if source else ""
    values: dict[str, Any] = {}
    for name, value in given.items():
        option = find_option(model, name)
        if option is None:
            kind = f"key of {source}" if source else f"flag of `{command}`"
            known = [one.keyword if source else f"--{one.name}" for one in options_of(model)]
            raise UnknownNameError(kind, name if source else f"--{name}", known)
        if value is None:
            continue
        try:
            read = option.read(value)
        except ConfigError as error:
            raise ConfigError(f"{prefix}{error}") from error
        if option.owner:
            values.setdefault(option.owner, {})[option.key] = read
        else:
            values[option.key] = read
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
