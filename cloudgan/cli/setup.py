"""`cloudgan setup`: what an account needs once, made or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.account_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.confirmation import confirm
from cloudgan.cli.output import show_json, shown_progress
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.auditing.survey import Survey
    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.plan import Place, Step
    from cloudgan.core.progress import Progress
    from cloudgan.launching.cloud import Thing


@with_flags(account=account_flags)
def setup(
    *,
    teardown: bool = False,
    purge: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
    account: Where = EVERY_CLOUD,
) -> None:
    """Makes what an account needs once in a region: its bucket, its identities and their rights.

    Given again it makes what is missing. `deploy` makes the bucket by itself; who may not make
    identities asks somebody who may to run this once. Nothing of it bills by the hour.

    Args:
        teardown: Remove it again: all that no run owns, in --region, or everywhere without one.
        purge: With --teardown: the buckets too, with all checkpoints, logs and records in them.
        dry_run: Show the requests and stop; needs no login.
        yes: Do not ask.
        json: Print the result as JSON.
        account: Which, from the flags that commands share.
    """
    if account.provider is None:
        raise ConfigError("whose account? Give --provider=gcp, aws or azure")
    if purge and not teardown:
        raise ConfigError("--purge empties buckets: it goes with --teardown")
    from cloudgan.auditing.metadata_server import forget_unless_there

    forget_unless_there()
    if teardown:
        _teardown(account, purge=purge, dry_run=dry_run, yes=yes, json=json)
    else:
        _setup(account, dry_run=dry_run, yes=yes, json=json)


def _setup(account: Where, *, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.auditing.account import Account
    from cloudgan.cli.rented_place import account_place
    from cloudgan.providers.clouds import of_login, open_cloud, rules

    place = account_place(account)
    if dry_run:
        _show(place, rules(place.provider).setup_steps(place), json=json)
        return
    with shown_progress(as_json=json) as progress:
        cloud = open_cloud(place, progress.say)
        place = of_login(place, cloud.identify())
        steps = rules(place.provider).setup_steps(place)
        if not json:
            _show(place, steps, json=False)
        confirm(f"Make what of this is missing in {_named(place)}?", yes=yes)
        made = []
        for step, is_new in Account(cloud, progress.say).make(steps):
            progress.say(f"{'made' if is_new else 'there already'}: {step.ensure}")
            made += [step.ensure] if is_new else []
    if json:
        show_json({"account": place.account, "region": place.region, "made": made})
    else:
        print(f"{len(made)} made, {len(steps) - len(made)} were there: {_named(place)} is ready")


def _teardown(account: Where, *, purge: bool, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.auditing.account import BUCKET, Account, torn_down
    from cloudgan.cli.doctor import surveyed

    with shown_progress(as_json=json) as progress:
        surveyor, survey = surveyed(account, ())
        things = torn_down(survey, everywhere=account.region is None, purge=purge)
        kept = [one for one, _ in survey.things if one.shared == BUCKET and one not in things]
        if dry_run or not things:
            _tell(things, [], kept, json=json)
            return
        if not json:
            for thing in things:
                print(f"  {thing.kind} {thing.name}  {thing.region}")
        confirm(f"Remove {len(things)} from {_named(survey.place)}?", yes=yes)
        buckets = {thing.region for thing in things if thing.shared == BUCKET}
        _empty(survey, buckets, progress, yes=yes)
        gone = []
        for what in Account(surveyor.cloud, progress.say).remove(things):
            progress.say(f"gone: {what}")
            gone.append(what)
    _tell(things, gone, kept, json=json)


def _empty(survey: Survey, regions: set[str], progress: Progress, *, yes: bool) -> None:
    """Removes all that is in the account's own buckets, after a question for each."""
    from cloudgan.providers.clouds import region_of, rules
    from cloudgan.stores import open_store

    provider = survey.place.provider
    for region in sorted({region_of(provider, one) for one in regions}):
        place = survey.place.model_copy(update={"region": region})
        store = open_store(rules(provider).store(place))
        names = store.list()
        if not names:
            continue
        runs = ", ".join(sorted({one.run for one in survey.folders if one.store == store.url}))
        what = f"{len(names)} files, {store.size_bytes() / 2**20:.1f} MiB"
        confirm(f"{store.url} holds {what} of {runs or 'no run'}: lose them for ever?", yes=yes)
        for name in names:
            store.delete(name)
        progress.say(f"{len(names)} files removed from {store.url}")


def _show(place: Place, steps: tuple[Step, ...], *, json: bool) -> None:
    if json:
        told = [step.model_dump(mode="json") for step in steps]
        show_json({"account": place.account, "region": place.region, "steps": told})
        return
    print(f"once in {_named(place)}, kept where it is there already:")
    for step in steps:
        print(f"  {step.ensure}\n    {step.operation}")


def _tell(things: tuple[Thing, ...], gone: list[str], kept: list[Thing], *, json: bool) -> None:
    found: dict[str, Any] = {
        "things": [f"{one.kind} {one.name}" for one in things],
        "gone": gone,
        "kept": [one.name for one in kept],
    }
    if json:
        show_json(found)
        return
    if not things:
        print("nothing is there that no run owns")
    elif gone:
        print(f"{len(gone)} removed")
    else:
        for what in found["things"]:
            print(f"would go: {what}")
    for name in found["kept"]:
        print(f"bucket {name} stays, with what runs left in it; --purge removes it")


def _named(place: Place) -> str:
    return f"{place.provider} {place.account}, {place.region}"
