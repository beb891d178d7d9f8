"""The options of every command, for tests that hold for all of them."""

from __future__ import annotations

from cloudgan.cli.program import functions
from cloudgan.core.command import model_of
from cloudgan.core.options import Common, Option, build, options_of, read
from cloudgan.launch.plan.request import LaunchRequest


def options_by_command() -> dict[str, tuple[Option, ...]]:
    """Returns arguments and flags of each command, with those that all have; ``bench step`` is a command."""
    common = options_of(Common)
    return {name: (*options_of(model_of(found)), *common) for name, found in functions().items()}


def parse(command, words):
    """Returns the options of a command line of `cloudgan`; `command` is its function."""
    model = model_of(command)
    own, common = read("cloudgan", model, words)
    build(Common, common, command="cloudgan")
    return build(model, own, command="cloudgan")


def flags(options):
    """The options that are given by name only."""
    return [one for one in options if not (one.flag.is_positional or one.flag.takes_words)]


def arguments(options):
    """The options that can be given without a name."""
    return [one for one in options if one.flag.is_positional]


def job(name, *words):
    """Returns the words of `plan` or `deploy` for a job: flags of the launch, then ``--``, the job and its flags."""
    launch = {one.name for one in options_of(LaunchRequest) if not one.owner} - {"config"}
    launch |= {one.name for one in options_of(Common)} | {"yes", "dry-run", "detach", "output"}
    before = [word for word in words if word.partition("=")[0].removeprefix("--") in launch]
    return [*before, "--", *name.split(), *(word for word in words if word not in before)]
