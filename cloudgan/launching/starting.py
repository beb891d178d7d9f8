"""Does a plan's steps in their order: the intent first, so that nothing exists unmeant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.clock import utc_now
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.labels import SPEC

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan, Step
    from cloudgan.launching.ledger import Ledger
    from cloudgan.launching.provider import Provider


def start(
    plan: Plan,
    provider: Provider,
    ledger: Ledger,
    say: Callable[[str], None],
    make_ready: Callable[[], None] = lambda: None,
) -> bool:
    """Makes everything that is not there; whether an attempt began.

    A job that is over, or was stopped, is removed first, so that the next one goes on from its
    checkpoints; one that runs is kept.

    Args:
        plan: What is meant.
        provider: Where.
        ledger: Notes what was sent.
        say: Is told each thing that was made.
        make_ready: Moves data to the store; called when the intent is written, where that is in the
            store, and else before anything is made: nothing that bills by the hour waits for it.

    Raises:
        ConfigError: The run exists with other settings.
        Interrupted: Ctrl-C; says how to go on and how to remove what was made.
    """
    refuse_another(plan, provider)
    state = provider.state(plan.run)
    if not state.is_over:
        return False
    ledger.see(state)  # what is stopped takes its times along
    if state.phase != "absent":
        provider.stop(plan.run)
    sent: list[tuple[str, Step]] = []
    step: Step | None = None
    intent = next((step for step in plan.steps if step.at == "store"), None)
    try:
        if intent is None:
            make_ready()
        for step in plan.steps:
            if provider.ensure(step, plan):
                sent.append((utc_now(), step))
                say(f"made {step.ensure}")
            if step is intent:
                make_ready()
    except KeyboardInterrupt as error:
        if step and step not in [each for _, each in sent]:
            sent.append((utc_now(), step))  # perhaps it was: what may bill is noted
        raise Interrupted(
            f"stopped while starting run {plan.run}. The same command goes on; `cloudgan down"
            f" {plan.run}` removes what was made"
        ) from error
    finally:
        if sent:
            ledger.begin(sent)
    provider.mark(plan.run, "started")
    return bool(sent)


def refuse_another(plan: Plan, provider: Provider) -> None:
    """Returns unless there is a run of this name that was meant otherwise.

    Raises:
        ConfigError: There is.
    """
    there = provider.intent(plan.run)
    if there is None or there.spec == plan.spec:
        return
    raise ConfigError(
        f"run {plan.run} exists with other settings ({SPEC} {there.spec}, asked {plan.spec}); take"
        f" another --name, or remove it first: cloudgan down {plan.run}"
    )
