"""`cloudgan cancel`: ends a run's job, which saves first; it can go on later."""

from __future__ import annotations

from typing import Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.place import find_run, folder_of
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.results import Results


def cancel(
    name: str,
    *,
    provider: Literal["kubernetes", "local", "slurm"] | None = None,
    context: str | None = None,
    namespace: str | None = None,
    json: bool = False,
) -> None:
    """Ends the job of a run; its workers save a checkpoint first. `deploy` goes on from there.

    Args:
        name: Of the run.
        provider: Where it is, when it was started elsewhere.
        context: Of the kubeconfig, likewise.
        namespace: Of the cluster, likewise.
        json: Print the result as JSON.
    """
    with shown_progress(as_json=json) as progress:
        plan, opened = find_run(
            name, provider=provider, context=context, namespace=namespace, say=progress.say
        )
        results = Results.of(plan)
        ledger = Ledger(folder_of(plan), plan, results)
        ledger.see(opened.state(plan.run))
        progress.start(f"ending {plan.run}")
        opened.stop(plan.run)
        ledger.see(opened.state(plan.run))
        came = results.fetch_if_there(folder_of(plan), progress.say) if results else []
    show({"run": plan.run, "state": "stopped", "fetched": ", ".join(came)}, as_json=json)
