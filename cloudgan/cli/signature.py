"""What a command accepts: its function's parameters, and how text becomes their values.

A parameter is a flag when it is keyword-only and an argument otherwise. Annotations decide: str,
int, float, bool, a Literal of strings, or one of these or None. ``bool | str`` is a switch that may
have a value: ``--gate`` and ``--gate=FILE``.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from cloudgan.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

REQUIRED = inspect.Parameter.empty
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)")
_WHOLE = re.compile(r"[+-]?\d+(_\d+)*")
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}
_PLACES = {str: "TEXT", int: "N", float: "X", bool: ""}
_SWITCH_OR_TEXT = {bool, str}


@dataclass(frozen=True)
class Parameter:
    """One flag or argument of a command."""

    name: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    is_flag: bool
    may_stand_alone: bool = False

    @property
    def word(self) -> str:
        """Its name on the command line: a parameter ``as_`` is written ``as``."""
        return self.name.removesuffix("_")

    @property
    def shown(self) -> str:
        """How people write it: ``--global_batch`` or ``SOURCE``."""
        if not self.is_flag:
            return self.word.upper()
        return f"-{self.word}" if len(self.word) == 1 else f"--{self.word}"

    @property
    def place(self) -> str:
        """What stands for its value in a help page; empty for a switch."""
        return "|".join(self.choices) or _PLACES[self.kind]

    @property
    def is_switch(self) -> bool:
        """Whether it needs no value."""
        return self.kind is bool or self.may_stand_alone

    def value(self, text: str) -> Any:
        """Turns `text` into a value; text stays as typed, so ``2.10`` is no 2.1.

        Raises:
            ConfigError: It is no such value.
        """
        if self.choices:
            if text not in self.choices:
                raise UnknownNameError(f"value of {self.shown}", text, self.choices)
            return text
        if self.kind is int:
            if not _WHOLE.fullmatch(text):
                raise ConfigError(f"{self.shown} must be a whole number, got {text!r}")
            return int(text)
        if self.kind is float:
            return self._number(text)
        if self.may_stand_alone:
            if not text:
                raise ConfigError(f"{self.shown}= has no value: {self.shown}=TEXT, or {self.shown}")
            return _WORDS.get(text.lower(), text)
        if self.kind is bool:
            if text.lower() not in _WORDS:
                raise ConfigError(
                    f"{self.shown} is a switch: --{self.word} or --no-{self.word}, got {text!r}"
                )
            return _WORDS[text.lower()]
        return text

    def _number(self, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise ConfigError(f"{self.shown} must be a number, got {text!r}")
        return found


@dataclass(frozen=True)
class Signature:
    """Everything one command accepts."""

    command: str
    parameters: tuple[Parameter, ...]

    @property
    def flags(self) -> tuple[Parameter, ...]:
        """The parameters that are named."""
        return tuple(p for p in self.parameters if p.is_flag)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that are given by their place."""
        return tuple(p for p in self.parameters if not p.is_flag)

    def read(self, words: Iterable[str]) -> dict[str, str]:
        """Sorts the words of a command line into texts by parameter name.

        Raises:
            ConfigError: A flag is unknown, lacks its value or came twice; a word is left over; an
                argument is missing.
        """
        found: dict[str, str] = {}
        pending, only_arguments = deque(words), False
        while pending:
            word = pending.popleft()
            if word == "--" and not only_arguments:
                only_arguments = True
                continue
            if only_arguments or not _looks_like_flag(word):
                parameter, text = self._argument(word, found), word
            else:
                parameter, text = self._flag(word, pending)
            if parameter.name in found:
                raise ConfigError(f"{parameter.shown} was given twice; which one is meant?")
            found[parameter.name] = text
        missing = [
            p.shown for p in self.parameters if p.default is REQUIRED and p.name not in found
        ]
        if missing:
            raise ConfigError(
                f"`{self.command}` needs {' and '.join(missing)}; see `{self.command} --help`"
            )
        return found

    def values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Turns texts into values.

        Raises:
            ConfigError: One is no such value.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        return {name: known[name].value(text) for name, text in texts.items()}

    def _argument(self, word: str, found: Mapping[str, str]) -> Parameter:
        for parameter in self.arguments:
            if parameter.name not in found:
                return parameter
        name = word.partition("=")[0].replace("-", "_")
        meant = any(p.word == name for p in self.flags)
        taken = " ".join(p.shown for p in self.arguments) or "flags only"
        raise ConfigError(
            f"`{self.command}` takes {taken}, and {word!r} is left over."
            + (f" Did you mean '--{word}'?" if meant else f" See `{self.command} --help`.")
        )

    def _flag(self, word: str, pending: deque[str]) -> tuple[Parameter, str]:
        written, equals, text = word.partition("=")
        name = written.removeprefix("--").replace("-", "_")
        known = {parameter.word: parameter for parameter in self.parameters}
        if len(written) == len("-f"):
            name = written[1:]  # one dash and one letter, as in `logs -f`
        if name not in known:
            denied = known.get(name.removeprefix("no_"))
            if denied and denied.is_switch and name.startswith("no_") and not equals:
                return denied, "false"
            raise UnknownNameError(f"flag of `{self.command}`", written, self._flag_names())
        parameter = known[name]
        if equals:
            return parameter, text
        if parameter.is_switch:
            follows = pending and pending[0].lower() in {"true", "false"}
            return parameter, pending.popleft() if follows else "true"
        if not pending or _looks_like_flag(pending[0]):
            raise ConfigError(f"{written} needs a value: --{name}={parameter.place}")
        return parameter, pending.popleft()

    def _flag_names(self) -> list[str]:
        return [*(parameter.shown for parameter in self.flags), "--help"]


def read_signature(function: Callable[..., Any], command: str) -> Signature:
    """Reads the parameters of `function`, which users call as `command`.

    Raises:
        TypeError: A parameter has an annotation that no command line can fill.
    """
    hints = get_type_hints(function)
    return Signature(
        command,
        tuple(
            _parameter(parameter, hints.get(name, parameter.annotation))
            for name, parameter in inspect.signature(function).parameters.items()
        ),
    )


def _parameter(found: inspect.Parameter, hint: Any) -> Parameter:
    if get_origin(hint) in {types.UnionType, Union}:
        hints = [one for one in get_args(hint) if one is not types.NoneType]
        hint = hints[0] if len(hints) == 1 else hint
        if set(hints) == _SWITCH_OR_TEXT and found.kind is found.KEYWORD_ONLY:
            return Parameter(found.name, str, (), found.default, is_flag=True, may_stand_alone=True)
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind = str if choices and all(isinstance(one, str) for one in choices) else hint
    if kind not in _PLACES or found.kind in {found.VAR_KEYWORD, found.VAR_POSITIONAL}:
        raise TypeError(f"{found}: a command takes str, int, float, bool and Literal only")
    is_flag = found.kind is found.KEYWORD_ONLY
    return Parameter(found.name, kind, choices, found.default, is_flag)


def _looks_like_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)
