"""python-fire, tamed: a command line is understood to its last word before anything runs.

Fire calls a function first and looks at the words that are left over afterwards, guesses types from
text (2.10 becomes 2.1) and shows help in a pager. A typo must never rent a machine. So here the
words are read by the annotations of the command's function; Fire gets them in one canonical form,
finds the command and binds them, which gives a call that is only then made.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import fire
import fire.decorators

from cloudgan import log
from cloudgan.cli.failure import explain
from cloudgan.cli.help_page import command_page, program_page, summary_line
from cloudgan.cli.signature import Signature, read_signature
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Commands = Mapping[str, str | Callable[..., None] | "Program"]

_HELP = {"--help", "-h"}


@dataclass(frozen=True)
class Program:
    """A program with commands, each a function or the ``module:function`` where one is.

    A module is imported when its command is called or asked for help; the list of commands takes
    their one-line summaries from the source text, so it imports none of them. A command may be a
    program itself, with commands of its own: ``cloudgan bench step``.
    """

    name: str
    summary: str
    version: str
    commands: Commands

    def run(self, argv: Sequence[str]) -> NoReturn:
        """Does what `argv` says and ends the process with the exit code that tells how it went."""
        words = [word for word in argv if word != "--traceback"]
        as_json = not {"--json", "--json=true"}.isdisjoint(words)
        try:
            log.configure(settings.log_format())
            self._run(words)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_output()
            sys.exit(1)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  this is where they end
            if len(words) < len(argv) or settings.wants_traceback():
                traceback.print_exception(error)
            failure = explain(error)
            failure.tell(as_json=as_json)
            sys.exit(failure.exit_code)
        sys.exit(0)

    def _run(self, words: list[str]) -> None:
        if words[:1] == ["help"] and words[1:]:
            words = [*words[1:], "--help"]
        inner = self.commands.get(words[0]) if words else None
        if isinstance(inner, Program):
            inner._run(words[1:])
        elif words[:1] == ["--version"]:
            print(f"{self.name} {self.version}")
        elif not words or words[0] in _HELP or words == ["help"]:
            lines = {name: _summary(target) for name, target in self.commands.items()}
            print(program_page(self.name, self.summary, lines))
        elif not _HELP.isdisjoint(words[1:]):
            function = self._find(words[0])
            print(command_page(function, read_signature(function, f"{self.name} {words[0]}")))
        else:
            self._call(words[0], words[1:])

    def _call(self, name: str, words: list[str]) -> None:
        function = self._find(name)
        signature = read_signature(function, f"{self.name} {name}")
        canonical = [f"--{key}={text}" for key, text in signature.read(words).items()]
        parsed = fire.Fire(
            {name: command(function, signature)},
            command=[name, *canonical],
            name=self.name,
            serialize=_silent,
        )
        parsed.call()

    def _find(self, name: str) -> Callable[..., None]:
        if name.startswith("-"):
            raise ConfigError(
                f"{name!r} came before any command; write `{self.name} COMMAND {name}`."
                f" Commands: {', '.join(sorted(self.commands))}"
            )
        if name not in self.commands:
            raise UnknownNameError("command", name, self.commands)
        target = self.commands[name]
        if not isinstance(target, str):
            return target  # type: ignore[return-value]  # programs are asked before
        module, _, function = target.partition(":")
        found: Callable[..., None] = getattr(importlib.import_module(module), function)
        return found


@dataclass(frozen=True)
class Deferred:
    """A command with its values, understood but not yet called."""

    call: functools.partial[None]


def command(
    function: Callable[..., None], signature: Signature | None = None
) -> Callable[..., Deferred]:
    """Makes `function` what Fire may call: it takes texts, and gives the call that they mean."""
    known = signature or read_signature(function, function.__name__)

    def parse(**texts: str) -> Deferred:
        return Deferred(functools.partial(function, **known.values(texts)))

    # Without this Fire guesses: 2.10 -> 2.1, us,eu -> a tuple.
    texts_stay_texts: Callable[..., Deferred] = fire.decorators.SetParseFn(str)(parse)
    return texts_stay_texts


def _silent(result: Any) -> None:
    """Commands print for themselves; Fire would show the call as a help page."""
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


def _forget_output() -> None:
    """Whoever read our output has gone (`| head`): Python must not complain when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
