"""Checkpoints: archives damaged, members replaced, metadata of another kind."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import strategies as st

from cloudgan.core.errors import CloudganError
from cloudgan.training import checkpoint as checkpoints
from fuzz.harness import MOST_LINES, Case, Fault, last_frame
from fuzz.mutations import SPECIAL_FILES, as_json, changed_npz, changed_tree, damaged, special

NAME = "runs/mine/checkpoints/step-000000004.npz"
READERS = (
    ("generate", "runs/mine", "out.h5", "--showers=2"),
    ("validate", "runs/mine"),
    ("export", "runs/mine", "out.export"),
    ("train", "--config=run.yaml", "--run=runs/mine"),
    ("train", "--config=run.yaml", "--run=runs/new", "--init-from=runs/mine"),
    ("bench", "generate", "--run=runs/mine"),
)


def cases_of(made):
    return st.builds(
        lambda words_of, one: Case(
            words_of, files={NAME: one[0]}, writes=("runs/*", "out.*"), changes=one[1]
        ),
        st.sampled_from(READERS),
        made,
    )


@st.composite
def changed_metadata(draw, content):
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    tree, changes = draw(changed_tree(json.loads(arrays["meta.json"].tobytes())))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays | {"meta.json": np.frombuffer(as_json(tree), np.uint8)})
    return buffer.getvalue(), changes


@pytest.fixture(scope="session")
def valid(project):
    return (project / NAME).read_bytes()


def test_a_damaged_archive_is_refused(holds, valid):
    holds(cases_of(damaged(valid).map(lambda content: (content, repr(content[:40])))), 20)


def test_changed_members_are_refused(holds, valid):
    holds(cases_of(changed_npz(valid)), 20)


def test_changed_metadata_are_refused(holds, valid):
    holds(cases_of(changed_metadata(valid)), 20)


def test_special_files_instead_of_a_checkpoint_are_refused(holds):
    made = st.sampled_from(sorted(SPECIAL_FILES)).map(
        lambda kind: (special(SPECIAL_FILES[kind]), kind)
    )
    holds(cases_of(made), len(SPECIAL_FILES))


class Weight:
    """Stub of a variable of a network."""

    def __init__(self, shape):
        self.shape, self.dtype, self.assigned = shape, "float32", None

    def assign(self, value):
        self.assigned = np.asarray(value)


@pytest.fixture
def reads(tmp_path):
    """Reads a checkpoint as `generate` and `train` do once TensorFlow is loaded; returns the fault."""

    def read(made):
        content, changes = made
        path = tmp_path / "step-000000004.npz"
        path.write_bytes(content)
        weights = {"generator/00": Weight((2, 3)), "discriminator/00": Weight((4,))}
        case = Case(("restore", path.name), changes=changes)
        try:
            checkpoint = checkpoints.read_checkpoint(path)
            checkpoints.restore_part(checkpoint, "generator", [weights["generator/00"]])
            checkpoints.restore(checkpoint, weights)
        except CloudganError as error:
            if len(str(error).splitlines()) > MOST_LINES:
                return Fault("a long message", case, str(error))
        except Exception as error:  # noqa: BLE001
            return Fault(f"{type(error).__name__} at {last_frame(error)}", case, str(error)[:200])
        for name, weight in weights.items():
            if weight.assigned is not None and (
                weight.assigned.shape != weight.shape or not np.isfinite(weight.assigned).all()
            ):
                return Fault(
                    "an invalid array was assigned", case, f"{name}: {weight.assigned!r:.200}"
                )
        return None

    return read


def test_reading_a_damaged_archive_raises_our_error(holds, valid, reads):
    holds(damaged(valid).map(lambda content: (content, repr(content[:40]))), 40, reads)


def test_reading_changed_members_raises_our_error(holds, valid, reads):
    holds(changed_npz(valid), 60, reads)


def test_reading_changed_metadata_raises_our_error(holds, valid, reads):
    holds(changed_metadata(valid), 40, reads)
