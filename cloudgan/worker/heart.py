"""How the run is doing, looked at by the chief: what `heartbeat.json` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from cloudgan.core import record
from cloudgan.core.clock import utc_now
from cloudgan.core.heartbeat import FILE_NAME, Heartbeat
from cloudgan.core.quality import quality_of
from cloudgan.stores import ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.stores import Store
    from cloudgan.worker.metadata import Notice
    from cloudgan.worker.place import Place
    from cloudgan.worker.state import WorkerState


def look(place: Place, state: WorkerState, notices: Mapping[int, Notice]) -> Heartbeat:
    """Looks at the run now; `notices` are those of all workers."""
    known = record.read_if_whole(place.folder.record_file)
    epochs = known.epochs()
    whole = [each for each in epochs if each.complete]
    pulse, last = state.pulse, epochs[-1] if epochs else None
    if state.standing.phase == "ended":
        pulse = None  # the last steps were too quick for a pulse
    return Heartbeat(
        time=utc_now(),
        configuration=place.configuration,
        phase=state.standing.phase,
        world=state.world,
        missing=state.missing,
        generation=state.standing.generation,
        restarts=state.restarts,
        step=pulse.step if pulse else last.step if last else None,
        epoch=pulse.epoch if pulse else last.epoch + last.complete if last else None,
        epochs=place.config.training.epochs,
        steps_per_second=pulse.steps_per_second if pulse else None,
        seconds_per_epoch=whole[-1].train_seconds if whole else None,
        quality=quality_of(known.validations()),
        exit_code=state.exit_code,
        notices={index: notice.seconds for index, notice in notices.items()},
        sentence=state.sentence,
    )


def news(state: WorkerState, notices: Mapping[int, Notice]) -> object:
    """What of a heartbeat nobody should wait for."""
    ended = (state.exit_code, state.sentence)
    return (state.standing, state.missing, state.restarts, *ended, tuple(notices.items()))


def is_finished(store: Store, place: Place) -> bool:
    """Whether this very run, as it is asked for now, was trained to its end.

    Raises:
        StoreError: The store failed.
    """
    try:
        last = Heartbeat.model_validate_json(store.read(FILE_NAME))
    except (ObjectMissingError, ValidationError):
        return False
    ended_well = last.phase == "ended" and last.exit_code == 0
    return ended_well and last.configuration == place.configuration
