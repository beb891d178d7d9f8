"""The program `cloudgan`: its commands, and how one is run.

python-fire dispatches. It calls a function before it checks the remaining words, guesses types from text (2.10
becomes 2.1) and shows help in a pager, and a typo must never rent a machine. So the words are read by the model of
the command first; Fire receives them in canonical form, as text, and binds them to a deferred call.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NoReturn

import fire
import fire.decorators

from cloudgan import _EXPORTS, __version__
from cloudgan.cli.failure import explain
from cloudgan.core import log, settings
from cloudgan.core.errors import ConfigError, UnknownNameError, nearest, show
from cloudgan.core.masking import masked
from cloudgan.core.user_text import check_text

_HELP = {"--help", "-h"}
_HELP_ALL = "--help-all"


@dataclass(frozen=True)
class Program:
    """A program with commands.

    Attributes:
        name: Of the program.
        page: Its help page.
        topics: Text by name, of `help NAME`.
        commands: ``module:function`` by name, a decorated function (`core.command`), or a program. A module is
            imported only when its command is called or its help page is requested.
        aliases: Command by other name.
    """

    name: str
    page: str
    commands: Mapping[str, str | Callable[..., Any] | Program]
    aliases: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, Traversable] = field(default_factory=dict)

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
            check_words(words)
            code = self._run(words, starting)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the outermost handler
            if len(words) < len(argv) or settings.is_on("CLOUDGAN_TRACEBACK"):
                sys.stderr.write(masked("".join(traceback.format_exception(error))))
            failure = explain(error)
            # What is refused before a world is joined follows from words and files, which all ranks have.
            if failure.exit_code != ConfigError.exit_code or settings.is_first_rank_here():
                failure.report(as_json=as_json)
            else:
                time.sleep(settings.FIRST_RANK_SECONDS)
            sys.exit(failure.exit_code)
        sys.exit(code)

    def _run(self, words: list[str], starting: Callable[[], None] | None) -> int:
        if words[:1] == ["help"] and words[1:]:
            if self.aliases.get(words[1], words[1]) not in self.commands:
                return self._show_topic(words[1])
            words = [*words[1:], "--help"]
        name = self.aliases.get(words[0], words[0]) if words else ""
        inner = self.commands.get(name)
        if isinstance(inner, Program):
            return inner._run(words[1:], starting)
        if words[:1] == ["--version"]:
            print(f"{self.name} {__version__}")
        elif not words or words[0] in {*_HELP, _HELP_ALL} or words == ["help"]:
            print(self.page)
        elif not {*_HELP, _HELP_ALL}.isdisjoint(before_command(words)[0][1:]):
            self._help(name, in_full=_HELP_ALL in words)
        else:
            return self._call(name, words[1:], starting)
        return 0

    def _help(self, name: str, *, in_full: bool) -> None:
        from cloudgan.cli import help as pages
        from cloudgan.core.command import model_of

        model = model_of(self.find(name))
        page = pages.every_flag if in_full else pages.screen
        pages.show(page(f"{self.name} {name}", model))

    def _show_topic(self, name: str) -> int:
        from cloudgan.cli import help as pages

        if name not in self.topics:
            near = nearest(name, [*self.commands, *self.topics])
            raise ConfigError(
                f"no command and no topic is {show(name)}.{near} Topics: {', '.join(sorted(self.topics))}"
            )
        pages.show(self.topics[name].read_text(encoding="utf-8").rstrip())
        return 0

    def _call(self, name: str, words: list[str], starting: Callable[[], None] | None) -> int:
        from cloudgan.cli.execution import prepare

        settings.settle_home()
        function, command = self.find(name), f"{self.name} {name}"
        call, canonical = prepare(function, command, words)
        deferred = fire.Fire(
            # Text is passed on unchanged; Fire would guess: 2.10 -> 2.1, us,eu -> a tuple.
            {name: fire.decorators.SetParseFn(str)(call)},
            command=[name, *canonical],
            name=self.name,
            serialize=lambda _: None,  # commands print their results themselves
        )
        code: int = deferred.run(starting)
        return code

    def find(self, name: str) -> Callable[..., Any]:
        """Returns the function of a command."""
        if name.startswith("-"):
            raise ConfigError(
                f"the flag {name!r} stands before any command; write `{self.name} COMMAND {name}`."
                f" Commands: {', '.join(sorted(self.commands))}"
            )
        if name not in self.commands:
            raise UnknownNameError("command", name, {*self.commands, *self.aliases})
        target = self.commands[name]
        if isinstance(target, Program):
            raise TypeError(name)
        if not isinstance(target, str):
            return target
        module, _, function = target.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return found


def before_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits a command line at ``--``, behind which the flags are those of another program."""
    end = list(words).index("--") if "--" in words else len(words)
    return list(words[:end]), list(words[end:])


def check_words(words: Sequence[str]) -> None:
    """Refuses a secret, or what no file can hold, in any word, before a file or a request has it."""
    before = ""
    for word in words:
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-") and bool(equals)
        check_text(name if is_flag else before or "an argument", value if is_flag else word)
        before = word if word.startswith("-") and not equals else ""


_PAGE = """\
cloudgan: GANs that simulate calorimeter showers, on a laptop or on any cloud
Usage: cloudgan COMMAND [ARGUMENTS] [FLAGS], or cloudgan --version
Start   demo          a tour of five minutes with a report; no account needed
        init          writes a commented job.yaml, space.yaml or run.yaml
Model   train         a GAN on your showers      search    hyper-parameters
        evolve        a grid of competing GANs   crossvalidate  folds
        simulate      showers to train with      generate, convert
Judge   report        opens the page of a run    validate  against Monte Carlo
        compare       runs, folds, the paper     export    ONNX, Geant4, Keras
        serve         all runs in a browser      tensorboard  losses
Run     plan          what deploy would do       deploy    starts and follows it
        status, ls    all runs, state, cost      logs      output of all workers
        exec, shell   beside a worker            cancel, down  stops, deletes
        adopt         one of another machine     image     writes a Dockerfile
Cost    offers        nodes by price and time    cost      of a run or a plan
        prices        catalog, its age, refresh
Account check         is my login ready?         setup     once per account
        doctor        what is left, per day
More    bench  schema  completion  worker (in pods)
First steps:  cloudgan demo
              cloudgan train showers.h5 --preset=mini
              cloudgan deploy --provider=gcp -- train showers.h5 --preset=mini
RUN is a name or a folder. `COMMAND --help` is a screen, --help-all every flag,
`cloudgan help TOPIC` gcp, aws, azure, slurm, spot, env, input, exit-codes, ..."""

_COMMANDS = (
    "search export compare plan deploy offers cost prices check doctor setup tensorboard demo init train validate status"
    " logs schema completion worker serve evolve generate simulate convert crossvalidate cancel down adopt report exec"
    " shell image"
)
_PLACES = _EXPORTS | {
    "adopt": "launch.operations.runs",
    "image": "launch.operations.image_context",
    "init": "cli.commands.init",
    "tensorboard": "launch.operations.tensorboard",
    "worker": "cli.commands.worker",
    **dict.fromkeys(("demo", "train", "validate"), "cli.commands.model"),
    **dict.fromkeys(("exec", "shell"), "launch.operations.remote_commands"),
    **dict.fromkeys(("logs", "serve", "status"), "cli.commands.runs"),
    **dict.fromkeys(("completion", "schema"), "cli.commands.reference"),
}
"""Modules of `cloudgan` with the functions of the commands: the public ones, unless a person reads more."""
_BUILTINS = {"exec": "exec_", "input": "input_"}
"""Functions that cannot have the name of the command."""
_BENCH = ("step", "input", "generate", "bandwidth", "cells", "parallel", "scaling")
_BENCH_PAGE = """\
cloudgan bench: measures this machine; variants alternate, medians have a spread
Usage: cloudgan bench COMMAND [FLAGS]
step       the training step against a variant of it
input      the input pipeline: reading, decoding, cutting, scaling
generate   time per shower of a generator, of the parametric source and of Geant4
bandwidth  from each MPI rank to each
cells      grids of cells: one core against a rank per cell
parallel   speed-up, staleness and load of masters for any number of workers
scaling    replicas or worker processes against threads
`cloudgan bench COMMAND --help` is one screen, --help-all every flag."""
PROGRAM = Program(
    name="cloudgan",
    page=_PAGE,
    commands={
        name: f"cloudgan.{_PLACES[name]}:{_BUILTINS.get(name, name)}" for name in _COMMANDS.split()
    }
    | {
        "bench": Program(
            "cloudgan bench",
            _BENCH_PAGE,
            {name: f"cloudgan.api.bench:{_BUILTINS.get(name, name)}" for name in _BENCH},
        )
    },
    topics={
        path.name.removesuffix(".txt"): path
        for path in resources.files("cloudgan.cli").joinpath("topics").iterdir()
    },
    aliases={"ls": "status", "stop": "cancel", "rm": "down", "ssh": "shell", "launch": "deploy"},
)


def functions() -> dict[str, Callable[..., Any]]:
    """Returns the function of every command, those of `bench` as ``bench NAME``; imports them all."""
    found: dict[str, Callable[..., Any]] = {}
    for name, target in PROGRAM.commands.items():
        if isinstance(target, Program):
            found |= {f"{name} {inner}": target.find(inner) for inner in target.commands}
        else:
            found[name] = PROGRAM.find(name)
    return found
