"""Commands beside the workers of a launched run: `execute` and `open_shell`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.api.targets import THIS_FOLDER, find_run
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Silent
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.schema.options.shared import RunLocator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.launch.backends.job_backend import JobBackend
    from cloudgan.schema.plan import Plan

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


class CommandResult(NamedTuple):
    """Result of `execute`: the run, the worker, and the exit code of the command."""

    run: str
    worker: int
    exit_code: int


def execute(
    name: str,
    command: Sequence[str],
    *,
    worker: int = 0,
    output: Callable[[bytes, bool], None],
    locator: RunLocator = THIS_FOLDER,
    progress: Progress | None = None,
) -> CommandResult:
    """Runs a command beside a running worker, with its files and environment variables.

    Args:
        name: Name of the run.
        command: Program and arguments; no shell expands them. It has no standard input.
        worker: Index of the worker.
        output: Receives each piece of output, and whether it is from standard error.
        locator: Where the run is, if another folder or machine started it.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: There is no such run, worker or program, or the worker does not run.
    """
    plan, backend = find_run(name, locator, (progress or Silent()).say)
    _check_worker(plan, backend, worker)
    code = backend.execute(plan.run, worker, command, CommandStreams(output))
    return CommandResult(plan.run, worker, code)


def open_shell(
    name: str,
    *,
    worker: int = 0,
    locator: RunLocator = THIS_FOLDER,
    progress: Progress | None = None,
) -> CommandResult:
    """Connects this terminal with a shell beside a running worker, until the shell ends.

    Raises:
        ConfigError: There is no such run or worker, the worker does not run, or there is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            f"`cloudgan shell` needs a terminal; for one command: cloudgan exec {name} -- COMMAND"
        )
    plan, backend = find_run(name, locator, (progress or Silent()).say)
    _check_worker(plan, backend, worker)
    streams = CommandStreams(lambda *_: None, terminal=True)
    return CommandResult(plan.run, worker, backend.execute(plan.run, worker, _SHELL, streams))


def _check_worker(plan: Plan, backend: JobBackend, worker: int) -> None:
    nodes = plan.workers.nodes
    if not 0 <= worker < nodes:
        last = f" to {nodes - 1}" if nodes > 1 else ""
        raise ConfigError(f"--worker={worker}: run {plan.run} has the workers 0{last}")
    state = backend.state(plan.run)
    found = next((one for one in state.workers if one.index == worker), None)
    if found is None or found.phase != "running":
        why = f" ({found.reason})" if found and found.reason else ""
        phase = found.phase if found and not state.is_over else state.phase
        raise ConfigError(
            f"worker {worker} of run {plan.run} does not run: {phase}{why}; see `cloudgan status"
            f" {plan.run}` and `cloudgan logs {plan.run}`"
        )
