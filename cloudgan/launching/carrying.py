"""Carries what a run has learnt from one cloud's store to another's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError
from cloudgan.run_folder import checkpoint_name, checkpoint_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.launching.results import Results

_RECORD = "record.jsonl"


def carry(old: Results, new: Results, say: Callable[[str], None]) -> int | None:
    """Copies the newest checkpoint and the record, unless the new store is as far.

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
        name = f"runs/{old.run}/checkpoints/{checkpoint_name(step)}"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint.npz"
            old.store.get(name, path)
            new.store.put(name, path)
            record = f"runs/{old.run}/{_RECORD}"
            if record in old.store.list(record):
                new.store.put(record, old.store.read(record))
    except CloudganError as error:
        say(f"the checkpoints stay in {old.store.url}, so the run begins anew: {error}")
        return None
    say(f"copied the checkpoint of step {step} from {old.store.url} to {new.store.url}")
    return step


def _newest(results: Results) -> int | None:
    names = results.store.list(f"runs/{results.run}/checkpoints/")
    steps = checkpoint_steps(name.rpartition("/")[2] for name in names)
    return steps[-1] if steps else None
