"""The signature of a command: its flags and arguments, and the conversion of text to their types.

A keyword-only parameter is a flag, any other an argument. The annotation gives the type: str, int,
float, bool, a Literal of strings, or one of these or None. ``bool | str`` is a switch with an
optional value: ``--gate`` and ``--gate=FILE``. Flags are shown in kebab-case and accepted with
hyphens or underscores.
"""

from __future__ import annotations

import inspect
import math
import re
import shlex
import types
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

REQUIRED = inspect.Parameter.empty


class CommandWords(tuple[str, ...]):
    """Annotation of an argument that takes all words after ``--``."""

    __slots__ = ()


_CAN_BE_EMPTIED = {"until"}
"""Flags whose empty value removes that of the run.yaml of a resumed run."""
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)")
_ANY_NUMBER = Range(-(2**53), 2**53)
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}
_PLACEHOLDERS = {str: "TEXT", int: "N", float: "X", bool: "", CommandWords: ""}
_SWITCH_OR_TEXT = {bool, str}


@dataclass(frozen=True)
class Parameter:
    """One flag or argument of a command."""

    name: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    is_flag: bool
    value_is_optional: bool = False

    @property
    def word(self) -> str:
        """Its name on the command line, in kebab-case; a parameter ``as_`` is ``as``."""
        return self.name.removesuffix("_").replace("_", "-")

    @property
    def shown(self) -> str:
        """Its name in help and messages: ``--global-batch`` or ``SOURCE``."""
        if self.kind is CommandWords:
            return f"-- {self.word.upper()}"
        if not self.is_flag:
            return self.word.upper().replace("-", "_")
        return f"-{self.word}" if len(self.word) == 1 else f"--{self.word}"

    @property
    def placeholder(self) -> str:
        """Placeholder of the value in a help page; empty for a switch."""
        return "|".join(self.choices) or _PLACEHOLDERS[self.kind]

    @property
    def is_switch(self) -> bool:
        """Whether it needs no value."""
        return self.kind is bool or self.value_is_optional

    def value(self, text: str) -> Any:
        """Converts `text` to the parameter's type; a str stays as typed (``2.10`` is not 2.1).

        Raises:
            ConfigError: The text is not a value of this type.
        """
        if not text and self.name in _CAN_BE_EMPTIED:
            return text
        if not text.strip():
            raise ConfigError(self._empty(text))
        if self.choices:
            if text not in self.choices:
                raise UnknownNameError(f"value of {self.shown}", text, self.choices)
            return text
        if self.kind is int:
            return ranges.parse_whole(self.shown, text, self._range)
        if self.kind is float:
            return self._number(text)
        if self.kind is bool and text.lower() not in _WORDS:
            raise ConfigError(
                f"{self.shown} is a switch: --{self.word} or --no-{self.word}, got {text!r}"
            )
        return _WORDS.get(text.lower(), text) if self.is_switch else text

    def _empty(self, text: str) -> str:
        """A variable of the shell that is not set is the usual reason, as in ``--region=$REGION``."""
        if not self.is_flag:
            return f"{self.shown} is {text!r}, which is empty; give a value"
        bare = f", or {self.shown} without a value" if self.is_switch else ""
        needed = "" if self.default is REQUIRED else ", or omit the flag"
        value = self.placeholder or "true"
        return f"{self.shown}={text} is empty; give {self.shown}={value}{bare}{needed}"

    @property
    def _range(self) -> Range:
        return ranges.FLAGS.get(self.name, _ANY_NUMBER)

    def _number(self, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise ConfigError(f"{self.shown} must be a number, got {text[:80]!r}")
        self._range.check(self.shown, found)
        return found


@dataclass(frozen=True)
class Signature:
    """The flags and arguments of one command."""

    command: str
    parameters: tuple[Parameter, ...]

    @property
    def flags(self) -> tuple[Parameter, ...]:
        """The keyword parameters."""
        return tuple(p for p in self.parameters if p.is_flag)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The positional parameters."""
        return tuple(p for p in self.parameters if not p.is_flag)

    def read(self, words: Iterable[str]) -> dict[str, str]:
        """Assigns the words of a command line to parameters, as text by parameter name.

        Raises:
            ConfigError: A flag is unknown, has no value or is given twice; an argument is missing
                or superfluous.
        """
        found: dict[str, str] = {}
        pending, only_arguments = deque(words), False
        while pending:
            word = pending.popleft()
            if word == "--" and not only_arguments:
                only_arguments = True
                if pending and (command := self._command_words):
                    found[command.name] = shlex.join(pending)
                    break
                continue
            if only_arguments or not _looks_like_flag(word):
                parameter, text = self._argument(word, found), word
            else:
                parameter, text = self._flag(word, pending)
            if parameter.name in found:
                raise ConfigError(f"{parameter.shown} was given twice; give it once")
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
        """Converts texts to values.

        Raises:
            ConfigError: A text is not a value of its parameter.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        return {
            name: CommandWords(shlex.split(text))
            if known[name].kind is CommandWords
            else known[name].value(text)
            for name, text in texts.items()
        }

    @property
    def _command_words(self) -> Parameter | None:
        return next((p for p in self.arguments if p.kind is CommandWords), None)

    def _argument(self, word: str, found: Mapping[str, str]) -> Parameter:
        for parameter in self.arguments:
            if parameter.kind is CommandWords:
                raise ConfigError(f"write -- before the command of `{self.command}`: -- {word}")
            if parameter.name not in found:
                return parameter
        name = word.partition("=")[0].replace("_", "-")
        is_flag = any(p.word == name for p in self.flags)
        taken = " ".join(p.shown for p in self.arguments) or "flags only"
        raise ConfigError(
            f"`{self.command}` takes {taken}, and {word!r} is left over."
            + (f" Did you mean '--{word}'?" if is_flag else f" See `{self.command} --help`.")
        )

    def _flag(self, word: str, pending: deque[str]) -> tuple[Parameter, str]:
        written, equals, text = word.partition("=")
        name = written.removeprefix("--").replace("_", "-")
        known = {parameter.word: parameter for parameter in self.parameters}
        if len(written) == len("-f"):
            name = written[1:]  # one dash and one letter, as in `logs -f`
        if name not in known:
            denied = known.get(name.removeprefix("no-"))
            if denied and denied.is_switch and name.startswith("no-") and not equals:
                return denied, "false"
            raise UnknownNameError(f"flag of `{self.command}`", written, self._flag_names())
        parameter = known[name]
        if equals:
            return parameter, text
        if parameter.is_switch:
            follows = pending and pending[0].lower() in {"true", "false"}
            return parameter, pending.popleft() if follows else "true"
        if not pending or _looks_like_flag(pending[0]):
            raise ConfigError(f"{written} needs a value: --{name}={parameter.placeholder}")
        return parameter, pending.popleft()

    def _flag_names(self) -> list[str]:
        return [*(parameter.shown for parameter in self.flags), "--help"]


def read_signature(function: Callable[..., Any], command: str) -> Signature:
    """Reads the parameters of `function`, the implementation of `command`.

    Raises:
        TypeError: A parameter has an unsupported annotation.
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
            return Parameter(
                found.name, str, (), found.default, is_flag=True, value_is_optional=True
            )
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind = str if choices and all(isinstance(one, str) for one in choices) else hint
    if kind not in _PLACEHOLDERS or found.kind in {found.VAR_KEYWORD, found.VAR_POSITIONAL}:
        raise TypeError(f"{found}: a command takes str, int, float, bool and Literal only")
    is_flag = found.kind is found.KEYWORD_ONLY
    return Parameter(found.name, kind, choices, found.default, is_flag)


def _looks_like_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)
