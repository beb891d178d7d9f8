"""Carries what a run has learnt from one cloud's store to another's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core import record as record_lines
from cloudgan.core.errors import CloudganError
from cloudgan.core.quality import best_step
from cloudgan.run_folder import checkpoint_name, checkpoint_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.launching.results import Results


def carry(old: Results, new: Results, say: Callable[[str], None]) -> int | None:
    """Copies the newest and the best checkpoint and the record, unless the new store is as far.

    The rest stays: run.yaml names places of the old cloud, and logs are of the old pods. A store that
    cannot be read is told, not raised: the run then begins anew.

    Returns:
        The step that it goes on from; None: it begins anew.
    """
    try:
        step = _newest(old)
        there = _newest(new)
        if step is None or (there is not None and there >= step):
            return there
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "copied"
            for name in _checkpoints(old, step, path):
                old.store.get(name, path)
                new.store.put(name, path)
            record = f"runs/{old.run}/{record_lines.FILE_NAME}"
            if record in old.store.list(record):
                new.store.put(record, old.store.read(record))
    except CloudganError as error:
        say(f"the checkpoints stay in {old.store.url}, so the run begins anew: {error}")
        return None
    say(f"copied the checkpoint of step {step} from {old.store.url} to {new.store.url}")
    return step


def _checkpoints(old: Results, newest: int, path: Path) -> tuple[str, ...]:
    """Names of those that go along, the newest last: where it is there, all are."""
    there = old.store.list(f"runs/{old.run}/")
    record = f"runs/{old.run}/{record_lines.FILE_NAME}"
    best = None
    if record in there:
        old.store.get(record, path)
        best = best_step(record_lines.read_if_whole(path).validations())
    steps = [step for step in (best, newest) if step is not None]
    names = [f"runs/{old.run}/checkpoints/{checkpoint_name(step)}" for step in dict.fromkeys(steps)]
    return tuple(name for name in names if name in there)


def _newest(results: Results) -> int | None:
    names = results.store.list(f"runs/{results.run}/checkpoints/")
    steps = checkpoint_steps(name.rpartition("/")[2] for name in names)
    return steps[-1] if steps else None
