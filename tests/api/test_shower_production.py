"""The program of a simulating worker, without Geant4: the mark of a shard, and the manifest of all shards."""

import hashlib
import threading

import pytest

from cloudgan.api.shower_production import FinishedShard, finish, finished_shards
from cloudgan.core.errors import DataError
from cloudgan.data.manifest import ColumnInfo, PartInfo, SourceInfo, StoredFile, parse_manifest
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.simulation import SimulationConfig
from cloudgan.storage.folder import FolderStore

SIMULATION = SimulationConfig(showers=5, showers_per_shard=2)


def put(store, number, decided="ECAL is GeV*50."):
    content = b"shower" * len(SIMULATION.events(number))
    name = f"part-{number:05d}-cells.npy"
    digest = hashlib.sha256(content).hexdigest()
    names = (name, *(f"part-{number:05d}-{one}.npy" for one in ("offsets", "values", "energy")))
    files = tuple(StoredFile(name=one, bytes=len(content), sha256=digest) for one in names)
    shard = PartInfo(records=len(SIMULATION.events(number)), source=0, files=files)
    source = SourceInfo(
        name="Geant4 electrons, seed 0",
        layout="simulated store",
        bytes=0,
        modified_ns=0,
        records=5,
        shape=(51, 51, 25),
        ecal_per_gev=50,
        ecal_decided=decided,
        columns=(ColumnInfo(name="energy", dtype="<f4"),),
    )
    document = FinishedShard(shard=shard, source=source, core_seconds=number)
    store.put(f"showers/{name}", content)
    store.put(f"shard-info/{number:05d}.json", document.model_dump_json().encode())


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "run")


def test_a_shard_without_its_document_is_not_finished(store):
    put(store, 0)
    store.put("showers/part-00001-cells.npy", b"half")
    assert finished_shards(store) == {0}


def test_the_manifest_is_written_when_the_last_shard_of_another_worker_is_there(store, monkeypatch):
    monkeypatch.setattr("cloudgan.api.shower_production._POLL_SECONDS", 0.01)
    put(store, 2)
    put(store, 0)
    waiting = threading.Thread(target=finish, args=(SIMULATION, store, LivenessFile(None)))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    assert "showers/manifest.json" not in store.list()
    put(store, 1)
    waiting.join(10)
    found = parse_manifest(store.read("showers/manifest.json"), "manifest")
    assert [part.records for part in found.parts] == [2, 2, 1]
    assert found.records == 5


def test_shards_of_different_versions_are_refused(store):
    for number in range(3):
        put(store, number, decided=f"version {number % 2}")
    with pytest.raises(DataError, match="simulated with different versions"):
        finish(SIMULATION, store, LivenessFile(None))
    assert "showers/manifest.json" not in store.list()
