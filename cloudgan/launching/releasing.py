"""Gives back what bills by the hour when a run is over, and notes until when it did."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.core.plan import Plan
    from cloudgan.launching.ledger import Ledger
    from cloudgan.launching.provider import Provider


def release(
    provider: Provider,
    plan: Plan,
    ledger: Ledger,
    state: str,
    say: Callable[[str], None],
    *,
    why: str = "",
) -> None:
    """Gives nodes back, where they were made for the run.

    Args:
        provider: Of the run.
        plan: Of the run.
        ledger: Notes the times of the nodes.
        state: In which the run is; one that somebody removed meanwhile counts as stopped.
        say: Is told what went.
        why: It is so, where nobody noted that yet.

    Raises:
        LaunchError: Something does not go away; says what to type.
    """
    state = "stopped" if state == "absent" else state
    ledger.see_end(f"{state}: {why}" if why else state)
    for what in given_back(provider, plan, ledger, lambda: provider.release(plan.run, state)):
        say(f"gone: {what}")


def given_back(
    provider: Provider, plan: Plan, ledger: Ledger, give_back: Callable[[], Iterable[str]]
) -> Iterator[str]:
    """Notes what was paid for while it is given back; yields each name when it is gone.

    Machines are gone when their pool is, which may be minutes before the cluster around them.

    Args:
        provider: Of the run.
        plan: Of the run.
        ledger: Notes the times.
        give_back: Does it, and yields what went.
    """
    if ledger.is_settled():  # given back before; what is asked for now is that nothing is left
        yield from give_back()
        return
    cluster = None
    with suppress(CloudganError):  # what is to go goes, noted or not
        ledger.see_nodes(provider.nodes(plan.run))
        cluster = provider.cluster(plan.run)
    ledger.see_beside(uploaded_gib=_uploaded_gib(plan), cluster=cluster)
    pool = plan.rental.pool if plan.rental else None
    for what in give_back():
        name = what.split()[-1].rpartition("/")[2]
        if name == pool:
            ledger.see_nodes_gone()
        if cluster and cluster.up and name == cluster.name:
            ledger.see_beside(cluster=cluster.model_copy(update={"down": utc_moment()}))
        yield what
    ledger.see_nodes_gone()
    ledger.see_stored()


def _uploaded_gib(plan: Plan) -> float | None:
    """What this plan moved into the cloud; 0 where nothing had to be."""
    if plan.rental is None:
        return None
    return plan.showers.gib if plan.showers.upload_to else 0.0
