"""Adapter around python-fire: parses a command line completely before anything runs.

Fire calls a function before it checks the remaining words, guesses types from text (2.10 becomes
2.1) and shows help in a pager. A typo must never rent a machine. This module parses the words by the
annotations of the command's function; Fire receives them in canonical form and binds them to a
deferred call.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import fire
import fire.decorators

from cloudgan.cli.options.failure import explain
from cloudgan.cli.options.help_page import command_page, grouped_page, program_page, summary_line
from cloudgan.cli.options.signature import Signature, read_signature
from cloudgan.core import log, settings
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.masking import masked
from cloudgan.core.user_text import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Commands = Mapping[str, str | Callable[..., None] | "Program"]

_HELP = {"--help", "-h"}


@dataclass(frozen=True)
class Program:
    """A program with commands: functions, ``module:function`` strings, or programs themselves.

    A module is imported only when its command is called or its help page is requested. The list of
    commands imports none: it takes summaries from `groups`, or from the source text.

    Attributes:
        groups: Summary of each command by group title, for a grouped help page.
    """

    name: str
    summary: str
    version: str
    commands: Commands
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def run(self, argv: Sequence[str], *, starting: Callable[[], None] | None = None) -> NoReturn:
        """Runs the command line `argv` and exits with its exit code.

        Args:
            argv: The words after the program's name.
            starting: Called when all imports are done and the command line is valid, just before
                the command runs.
        """
        own, rest = before_command(argv)
        words = [*(word for word in own if word != "--traceback"), *rest]
        as_json = not {"--json", "--json=true"}.isdisjoint(own)
        try:
            log.configure(settings.log_format())
            _check_words(words)
            self._run(words, starting)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the outermost handler
            if len(words) < len(argv) or settings.wants_traceback():
                sys.stderr.write(masked("".join(traceback.format_exception(error))))
            failure = explain(error)
            failure.report(as_json=as_json)
            sys.exit(failure.exit_code)
        sys.exit(0)

    def _run(self, words: list[str], starting: Callable[[], None] | None) -> None:
        if words[:1] == ["help"] and words[1:]:
            words = [*words[1:], "--help"]
        inner = self.commands.get(words[0]) if words else None
        if isinstance(inner, Program):
            inner._run(words[1:], starting)
        elif words[:1] == ["--version"]:
            print(f"{self.name} {self.version}")
        elif not words or words[0] in _HELP or words == ["help"]:
            print(self._page())
        elif not _HELP.isdisjoint(before_command(words)[0][1:]):
            function = self._find(words[0])
            print(command_page(function, read_signature(function, f"{self.name} {words[0]}")))
        else:
            self._call(words[0], words[1:], starting)

    def _page(self) -> str:
        if self.groups:
            return grouped_page(self.name, self.summary, self.groups)
        lines = {name: _summary(target) for name, target in self.commands.items()}
        return program_page(self.name, self.summary, lines)

    def _call(self, name: str, words: list[str], starting: Callable[[], None] | None) -> None:
        settings.settle_home()
        function = self._find(name)
        signature = read_signature(function, f"{self.name} {name}")
        canonical = [f"--{key}={text}" for key, text in signature.read(words).items()]
        parsed = fire.Fire(
            {name: command(function, signature)},
            command=[name, *canonical],
            name=self.name,
            serialize=_silent,
        )
        if starting:
            starting()
        parsed.call()

    def _find(self, name: str) -> Callable[..., None]:
        if name.startswith("-"):
            raise ConfigError(
                f"the flag {name!r} stands before any command; write `{self.name} COMMAND {name}`."
                f" Commands: {', '.join(sorted(self.commands))}"
            )
        if name not in self.commands:
            raise UnknownNameError("command", name, self.commands)
        target = self.commands[name]
        if not isinstance(target, str):
            return target  # type: ignore[return-value]  # a Program is handled in _run
        module, _, function = target.partition(":")
        found: Callable[..., None] = getattr(importlib.import_module(module), function)
        return found


@dataclass(frozen=True)
class Deferred:
    """A command with its parsed values, not yet called."""

    call: functools.partial[None]


def command(
    function: Callable[..., None], signature: Signature | None = None
) -> Callable[..., Deferred]:
    """Wraps `function` for Fire: the wrapper takes texts and returns a deferred call."""
    known = signature or read_signature(function, function.__name__)

    def parse(**texts: str) -> Deferred:
        return Deferred(functools.partial(function, **known.values(texts)))

    # Without this Fire guesses: 2.10 -> 2.1, us,eu -> a tuple.
    parse_as_text: Callable[..., Deferred] = fire.decorators.SetParseFn(str)(parse)
    return parse_as_text


def before_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits a command line at ``--``, behind which the flags are those of another program."""
    end = list(words).index("--") if "--" in words else len(words)
    return list(words[:end]), list(words[end:])


def _check_words(words: Sequence[str]) -> None:
    """Refuses a secret, or what no file can hold, in any word, before a file or a request has it.

    Raises:
        ConfigError: Names the flag and does not repeat its value.
    """
    before = ""
    for word in words:
        flag, equals, value = word.partition("=")
        is_flag = word.startswith("-") and bool(equals)
        check_text(flag if is_flag else before or "an argument", value if is_flag else word)
        before = word if word.startswith("-") and not equals else ""


def _silent(result: Any) -> None:
    """Suppresses Fire's output: commands print their results themselves."""
    del result


def _summary(target: str | Callable[..., None] | Program) -> str:
    if isinstance(target, Program):
        return target.summary
    if not isinstance(target, str):
        return summary_line(target.__doc__)
    module, _, function = target.partition(":")
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return summary_line(ast.get_docstring(node))
    return ""
