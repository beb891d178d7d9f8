"""Runs one command: its options are checked, then its body is called, then its result is printed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cloudgan.cli.emit import check_report, emit, progress_bars, show, write_report_file
from cloudgan.core.command import body_of, call_with, model_of
from cloudgan.core.errors import ConfirmationError
from cloudgan.core.flags import Options
from cloudgan.core.options import Common, Given, build, options_of, read
from cloudgan.reports.result import Result


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user answers yes on the terminal, or gave --yes.

    Raises:
        ConfirmationError: The answer is no, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationError(
            f"{question} Confirmation required, and standard input is not a terminal: add --yes."
            " Nothing was started"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationError("not confirmed; nothing was started")


@dataclass(frozen=True)
class Deferred:
    """A command whose options are valid, not yet called."""

    run: Callable[[Callable[[], None] | None], int]


def prepare(
    function: Callable[..., Any], command: str, words: Sequence[str]
) -> tuple[Callable[..., Deferred], list[str]]:
    """Reads the words of a command.

    Args:
        function: A decorated function (`core.command`).
        command: For messages, such as ``cloudgan train``.
        words: After the name of the command.

    Returns:
        A function of text that checks it and returns the deferred call, and the words for it: one for each option,
        ``--name=text``.

    Raises:
        ConfigError: A flag is unknown, has no value or is given twice; an argument is superfluous.
    """
    model = model_of(function)
    own, common = read(command, model, words)
    lists = {name: text for name, text in (own | common).items() if isinstance(text, list)}
    names = {one.keyword: one.name for one in (*options_of(model), *options_of(Common))}

    def call(**texts: str) -> Deferred:
        given: Given = {names[key]: lists.get(names[key], text) for key, text in texts.items()}
        shared = build(Common, {name: given[name] for name in common}, command=command)
        options = build(model, {name: given[name] for name in own}, command=command)
        return Deferred(functools.partial(_execute, function, options, shared))

    canonical = [
        f"--{name.replace('-', '_')}={' '.join(text) if isinstance(text, list) else text}"
        for name, text in (own | common).items()
    ]
    return call, canonical


def _execute(
    function: Callable[..., Any],
    options: Options,
    common: Common,
    starting: Callable[[], None] | None,
) -> int:
    """Calls the body, and returns the exit code."""
    report: str | None = getattr(options, "report", None)
    check_report(report)
    if starting:
        starting()
    with progress_bars(as_json=common.json_) as progress:
        own = {
            "progress": progress,
            "confirm": functools.partial(confirm, yes=getattr(options, "yes", False)),
            "as_json": common.json_,
            "announce": functools.partial(emit, as_json=common.json_, verbose=common.verbose),
            "show": (lambda _: None)
            if common.json_
            else functools.partial(show, verbose=common.verbose),
            "verbose": common.verbose,
        }
        result = call_with(body_of(function), options, own)
    if isinstance(result, int):
        return result
    if isinstance(result, Result):
        page = result.page() if report is not None else None
        if page is not None:
            write_report_file(page, str(report))
        emit(result, as_json=common.json_, verbose=common.verbose)
        return int(getattr(result, "exit_code", 0))
    return 0
