"""Commands beside the workers of a launched run: `exec` and `shell`."""

from __future__ import annotations

import sys

from pydantic import Field

from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.launch.operations.targets import find_run
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.runs import ExecOptions, ShellOptions
from cloudgan.schema.plan import Plan

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


class CommandResult(Result):
    """What a command beside a worker printed, and how it ended."""

    run: str
    worker: int
    exit_code: int = Field(description="of the command, and of `cloudgan exec`")
    stdout: str
    stderr: str

    def view(self) -> View:
        """Returns the output."""
        line = f"{self.run}, worker {self.worker}: exit code {self.exit_code}"
        return View(line, notes=(self.stdout, self.stderr))


@command
def exec_(
    options: ExecOptions, *, as_json: bool = True, progress: Progress | None = None
) -> CommandResult | int:
    """Runs a command beside a running worker, with its files and environment variables.

    Args:
        options: The command, and the worker.
        as_json: Return the output; else it goes to this program's, and the exit code is returned.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: There is no such run, worker or program, or the worker does not run.
    """
    kept: dict[bool, bytearray] = {False: bytearray(), True: bytearray()}

    def output(content: bytes, is_error: bool) -> None:
        if as_json:
            kept[is_error] += content
            return
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(content)
        stream.flush()

    plan, backend = find_run(options.run, options.locator, (progress or Silent()).say)
    _check_worker(plan, backend, options.worker)
    streams = CommandStreams(output)
    code = backend.execute(plan.run, options.worker, options.command, streams)
    if not as_json:
        return code
    stdout, stderr = (kept[is_error].decode(errors="replace") for is_error in (False, True))
    return CommandResult(
        run=plan.run, worker=options.worker, exit_code=code, stdout=stdout, stderr=stderr
    )


@command
def shell(options: ShellOptions, *, progress: Progress | None = None) -> int:
    """Connects this terminal with a shell beside a running worker, until the shell ends.

    Args:
        options: The worker.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: There is no such run or worker, the worker does not run, or there is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            f"`cloudgan shell` needs a terminal; for one command: cloudgan exec {options.run} -- COMMAND"
        )
    plan, backend = find_run(options.run, options.locator, (progress or Silent()).say)
    _check_worker(plan, backend, options.worker)
    streams = CommandStreams(lambda *_: None, terminal=True)
    return backend.execute(plan.run, options.worker, _SHELL, streams)


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
