"""`cloudgan setup`: creates or deletes what an account needs once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core import clouds
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.schema.options.runs import SetupOptions
from cloudgan.schema.options.shared import RunLocator

if TYPE_CHECKING:
    from cloudgan.api.accounts import Teardown
    from cloudgan.schema.plan import Step, Target
    from cloudgan.schema.resource import Resource


@command
def setup(options: SetupOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if options.account.provider is None:
        raise ConfigError(f"--provider is missing; give --provider={clouds.choices()}")
    if options.purge and not options.teardown:
        raise ConfigError("--purge empties buckets; it is only valid with --teardown")
    if options.teardown:
        _tear_down(
            options.account,
            purge=options.purge,
            dry_run=options.dry_run,
            yes=options.yes,
            json=as_json,
        )
    else:
        _set_up(options.account, dry_run=options.dry_run, yes=options.yes, json=as_json)


def _set_up(account: RunLocator, *, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.api.accounts import set_up_account, setup_steps

    if dry_run:
        _print_steps(*setup_steps(account), json=json)
        return

    def approve(target: Target, steps: tuple[Step, ...]) -> None:
        if not json:
            _print_steps(target, steps, json=False)
        confirm(f"Create what is missing in {_describe(target)}?", yes=yes)

    with progress_bars(as_json=json) as progress:
        target, steps, created = set_up_account(account, approve, progress)
    if json:
        print_json({"account": target.account, "region": target.region, "created": created})
    else:
        existing = len(steps) - len(created)
        print(f"{len(created)} created, {existing} existed: {_describe(target)} is ready")


def _tear_down(account: RunLocator, *, purge: bool, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.api.accounts import tear_down_account

    def approve(target: Target, resources: tuple[Resource, ...]) -> None:
        if not json:
            for one in resources:
                print(f"  {one.kind} {one.name}  {one.region}")
        confirm(f"Delete {len(resources)} resources of {_describe(target)}?", yes=yes)

    with progress_bars(as_json=json) as progress:
        done = tear_down_account(
            account,
            approve,
            lambda question: confirm(question, yes=yes),
            progress,
            purge=purge,
            dry_run=dry_run,
        )
    _print_teardown(done, json=json)


def _print_steps(target: Target, steps: tuple[Step, ...], *, json: bool) -> None:
    if json:
        objects = [step.model_dump(mode="json") for step in steps]
        print_json({"account": target.account, "region": target.region, "steps": objects})
        return
    print(f"once in {_describe(target)}, if missing:")
    for step in steps:
        print(f"  {step.ensure}\n    {step.operation}")


def _print_teardown(done: Teardown, *, json: bool) -> None:
    resources = [f"{one.kind} {one.name}" for one in done.resources]
    kept = [one.name for one in done.kept]
    if json:
        print_json({"resources": resources, "deleted": list(done.deleted), "kept": kept})
        return
    if not resources:
        print("no resource without a run exists")
    elif done.deleted:
        print(f"{len(done.deleted)} deleted")
    else:
        for name in resources:
            print(f"would delete: {name}")
    for name in kept:
        print(f"bucket {name} is kept with its contents; --purge deletes it")


def _describe(target: Target) -> str:
    return f"{target.provider} {target.account}, {target.region}"
