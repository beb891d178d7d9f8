"""`cloudgan down`: deletes the resources of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.api import runs
from cloudgan.api.sweep import runs_of
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.runs import DownOptions

if TYPE_CHECKING:
    from cloudgan.schema.plan import Plan


@command
def down(options: DownOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    store = ""

    def approve_purge(plan: Plan) -> None:
        nonlocal store
        store = plan.store
        confirm(f"Delete all checkpoints and logs of {plan.run} in {store}?", yes=options.yes)

    names = runs_of(options.run, options.locator)
    with progress_bars(as_json=as_json) as progress:
        results = [
            runs.down(
                run,
                locator=options.locator,
                purge=options.purge,
                approve_purge=approve_purge,
                progress=progress,
            )
            for run in names
        ]
    if as_json:
        objects = [_as_json(result) for result in results]
        print_json(objects[0] if len(objects) == 1 else {"sweep": options.run, "runs": objects})
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
