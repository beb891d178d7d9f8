"""`cloudgan down`: deletes the resources of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.api import runs
from cloudgan.api.sweep import runs_of
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_json, progress_bars

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator
    from cloudgan.schema.plan import Plan


@with_flags(locator=run_flags)
def down(
    name: str,
    *,
    purge: bool = False,
    yes: bool = False,
    json: bool = False,
    locator: RunLocator = THIS_FOLDER,
) -> None:
    """Stops a run, deletes its resources and prints its cost; can be repeated safely.

    Record and checkpoints stay in the store unless --purge is given, and in runs/NAME.

    Args:
        name: Name of the run, or of a sweep of seeds.
        purge: Delete the run's folder in the store, too.
        yes: Do not ask for confirmation of --purge.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    store = ""

    def approve_purge(plan: Plan) -> None:
        nonlocal store
        store = plan.store
        confirm(f"Delete all checkpoints and logs of {plan.run} in {store}?", yes=yes)

    names = runs_of(name, locator)
    with progress_bars(as_json=json) as progress:
        results = [
            runs.down(
                run, locator=locator, purge=purge, approve_purge=approve_purge, progress=progress
            )
            for run in names
        ]
    if json:
        objects = [_as_json(result) for result in results]
        print_json(objects[0] if len(objects) == 1 else {"sweep": name, "runs": objects})
        return
    for result in results:
        _print_result(result, store)


def _as_json(result: runs.DownResult) -> dict[str, Any]:
    found: dict[str, Any] = result._asdict()
    usd = found.pop("usd")
    return found if usd is None else found | {"usd": round(usd, 4)}


def _print_result(result: runs.DownResult, store: str) -> None:
    count = len(result.removed)
    print(f"{result.run}: {count} deleted" if count else f"{result.run}: nothing to delete")
    if result.purged_files:
        print(f"{result.purged_files} files deleted from {store}")
    if result.usd is not None:
        print(f"cost about {result.usd:.2f} USD; details: `cloudgan cost runs/{result.run}`")
