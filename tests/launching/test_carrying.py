"""Checkpoints go along to another cloud."""

from __future__ import annotations

import pytest

from cloudgan.core import record
from cloudgan.launching.carrying import carry
from cloudgan.launching.results import Results
from cloudgan.stores import StoreError
from cloudgan.stores.folder import FolderStore


@pytest.fixture
def stores(tmp_path):
    return tuple(Results(FolderStore(tmp_path / name), "gan") for name in ("old", "new"))


def put(results, *steps, record=b"{}\n"):
    for step in steps:
        results.store.put(f"runs/gan/checkpoints/step-{step:09d}.npz", str(step).encode())
    results.store.put("runs/gan/record.jsonl", record)
    results.store.put("runs/gan/run.yaml", b"data: {path: gs://old}")


def test_the_newest_checkpoint_and_the_record_go_along_and_nothing_else(stores):
    old, new = stores
    put(old, 10, 20)
    said = []
    assert carry(old, new, said.append) == 20
    assert new.store.list() == ("runs/gan/checkpoints/step-000000020.npz", "runs/gan/record.jsonl")
    assert new.store.read("runs/gan/checkpoints/step-000000020.npz") == b"20"
    assert "step 20" in said[0]
    assert carry(old, new, said.append) == 20
    assert len(said) == 1, "it was done"


def test_the_best_checkpoint_goes_along_as_the_record_names_it(stores, tmp_path):
    old, new = stores
    found = record.Validated(
        time="2026-01-01T00:00:00Z",
        step=10,
        epoch=0,
        showers=500,
        numbers={"metric": 0.2},
        seconds=1.0,
        by="metric",
        best=True,
        program_seconds=9.0,
    )
    record.append(tmp_path / "record.jsonl", found)
    put(old, 10, 20, 30, record=(tmp_path / "record.jsonl").read_bytes())
    assert carry(old, new, print) == 30
    assert new.store.list("runs/gan/checkpoints/") == (
        "runs/gan/checkpoints/step-000000010.npz",
        "runs/gan/checkpoints/step-000000030.npz",
    )


def test_a_store_that_is_further_stays_as_it_is(stores):
    old, new = stores
    put(old, 10)
    put(new, 30, record=b"longer\n")
    assert carry(old, new, print) == 30
    assert new.store.read("runs/gan/record.jsonl") == b"longer\n"


def test_without_a_checkpoint_a_run_begins_anew(stores):
    assert carry(*stores, print) is None


def test_a_store_that_cannot_be_read_is_told_and_the_run_begins_anew(stores):
    old, new = stores

    class Away(FolderStore):
        def list(self, prefix=""):
            raise StoreError("gs://lab: nobody answers")

    said = []
    assert carry(Results(Away(old.store.url), "gan"), new, said.append) is None
    assert "so the run begins anew: gs://lab: nobody answers" in said[0]
