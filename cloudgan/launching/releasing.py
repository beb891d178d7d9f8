"""Gives back what bills by the hour when a run is over, and notes until when it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan
    from cloudgan.launching.ledger import Ledger
    from cloudgan.launching.provider import Provider


def release(
    provider: Provider, plan: Plan, ledger: Ledger, state: str, say: Callable[[str], None]
) -> None:
    """Gives nodes back, where they were made for the run.

    Args:
        provider: Of the run.
        plan: Of the run.
        ledger: Notes the times of the nodes.
        state: In which the run is; one that somebody removed meanwhile counts as stopped.
        say: Is told what went.

    Raises:
        LaunchError: Something does not go away; says what to type.
    """
    ledger.see_nodes(provider.nodes(plan.run))
    for what in provider.release(plan.run, "stopped" if state == "absent" else state):
        say(f"gone: {what}")
    ledger.see_nodes_gone()
