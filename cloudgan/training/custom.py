"""The custom loop: cloudgan drives, the session works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.training.session import Session


def run_custom(
    session: Session, dataset: Any, *, epochs: int, finish_epoch: Callable[[Session], None]
) -> None:
    """Trains to the end of epoch number `epochs`, calling `finish_epoch` after each."""
    iterator = iter(dataset)
    while session.epoch < epochs:
        session.begin_epoch()
        while session.steps_left_in_epoch:
            session.advance(iterator)
        finish_epoch(session)
