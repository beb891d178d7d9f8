"""HDF5 files, stores, manifests and published TFRecord files: structure, values and bytes damaged."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from fuzz.harness import Case
from fuzz.mutations import (
    SPECIAL_FILES,
    as_json,
    changed_hdf5,
    changed_tree,
    damaged,
    hdf5_change,
    special,
)
from fuzz.project import framed

WRITES = ("out.h5", "runs/*")
HDF5_READERS = (
    ("convert", "showers.h5", "out.h5"),
    ("validate", "--generated=showers.h5", "--reference=showers.h5"),
    ("train", "--preset=smoke", "--data=showers.h5", "--run=runs/new"),
    ("plan", "--preset=smoke", "--data=showers.h5"),
)
STORE_READERS = tuple(
    tuple(word.replace("showers.h5", "store") for word in words) for words in HDF5_READERS
)


def case_of(words_of, files, changes, as_json_too):
    return Case(
        (*words_of, *(("--json",) if as_json_too else ())),
        files=files,
        writes=WRITES,
        changes=changes,
    )


def cases_of(readers, made):
    """Cases of a strategy of (files, changes)."""
    return st.builds(
        lambda words_of, one, json_too: case_of(words_of, *one, json_too),
        st.sampled_from(readers),
        made,
        st.booleans(),
    )


def test_changed_structure_of_an_hdf5_file_is_refused_or_harmless(holds, project):
    valid = (project / "showers.h5").read_bytes()

    def files(changes):
        content = valid
        for change in changes:
            content = changed_hdf5(content, change.apply)
        return {"showers.h5": content}, "; ".join(change.name for change in changes)

    changes = st.lists(
        hdf5_change(), min_size=1, max_size=2, unique_by=lambda change: change.subject
    )
    holds(cases_of(HDF5_READERS, changes.map(files)), 40)


def test_damaged_bytes_of_an_hdf5_file_are_refused_or_harmless(holds, project):
    valid = (project / "showers.h5").read_bytes()
    made = damaged(valid).map(lambda content: ({"showers.h5": content}, f"{len(content)} bytes"))
    holds(cases_of(HDF5_READERS, made), 25)


def test_damaged_headers_of_an_hdf5_file_are_refused_or_harmless(holds, project):
    """Most bytes are cells; the structure is in the first and in the last ones."""
    valid = (project / "showers.h5").read_bytes()
    head = damaged(valid[:2400]).map(lambda content: content + valid[2400:])
    tail = damaged(valid[-2400:]).map(lambda content: valid[:-2400] + content)
    made = st.one_of(head, tail).map(
        lambda content: ({"showers.h5": content}, "header or trailer damaged")
    )
    holds(cases_of(HDF5_READERS, made), 25)


def test_a_changed_manifest_is_refused_or_harmless(holds, project):
    tree = json.loads((project / "store/manifest.json").read_bytes())
    made = changed_tree(tree).map(lambda one: ({"store/manifest.json": as_json(one[0])}, one[1]))
    holds(cases_of(STORE_READERS, made), 40)


@pytest.mark.parametrize("name", ["store/manifest.json", "store/part-00000-values.npy"])
def test_damaged_files_of_a_store_are_refused_or_harmless(name, holds, project):
    valid = (project / name).read_bytes()
    made = damaged(valid).map(lambda content: ({name: content}, f"{name}: {content[:40]!r}"))
    holds(cases_of(STORE_READERS, made), 20)


def test_the_start_of_a_file_damaged_is_refused_or_harmless(holds, project):
    name = "store/part-00000-values.npy"
    valid = (project / name).read_bytes()
    made = damaged(valid[:80]).map(
        lambda content: ({name: content + valid[80:]}, f"{content[:80]!r}")
    )
    holds(cases_of(STORE_READERS, made), 20)


def test_strange_records_are_refused_or_harmless(holds):
    content = st.binary(max_size=60)
    records = st.lists(content, max_size=3).map(lambda found: b"".join(map(framed, found)))
    made = records.map(lambda content: ({"showers.tfrecord": content}, repr(content[:80])))
    readers = tuple(
        tuple(word.replace("showers.h5", "showers.tfrecord") for word in words)
        for words in HDF5_READERS
    )
    holds(cases_of(readers, made), 20)


@pytest.mark.parametrize(
    "name", ["showers.h5", "store/manifest.json", "store/part-00001-offsets.npy"]
)
def test_special_files_instead_of_showers_are_refused(name, holds):
    made = st.sampled_from(sorted(SPECIAL_FILES)).map(
        lambda kind: ({name: special(SPECIAL_FILES[kind])}, f"{name}: {kind}")
    )
    holds(
        cases_of(HDF5_READERS if name == "showers.h5" else STORE_READERS, made), len(SPECIAL_FILES)
    )
