"""The program of a worker whose run simulates: writes its shards into the store of the run.

`python -m cloudgan.api.shower_production`, started by the agent in a pod. Worker k of n simulates the
shards k, k + n, ... that the store lacks. A shard is an object, and its row of the manifest, written
after it, marks it as finished. Worker 0 waits for all shards and writes the manifest.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from pydantic import Field

from cloudgan import __version__
from cloudgan.core import settings
from cloudgan.core.children import at_its_end
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import CloudganError, DataError, TryAgain, install_command
from cloudgan.core.hardware import this_machine
from cloudgan.data.manifest import MANIFEST, Manifest, PartInfo, SourceInfo, manifest_bytes
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.simulation import SHARD_INFO, SHOWERS, SimulationConfig
from cloudgan.storage.store import Store, open_store
from cloudgan.worker.pod_environment import PodEnvironment, read_pod_environment

_POLL_SECONDS = 2.0


class FinishedShard(Document):
    """Document of a finished shard in the store of its run."""

    shard: PartInfo
    source: SourceInfo = Field(description="equal for all shards")
    core_seconds: float = Field(
        ge=0, allow_inf_nan=False, description="wall time of its processes; depends on the machine"
    )


def finished_shards(store: Store) -> frozenset[int]:
    """Returns the numbers of the finished shards in the store of a run."""
    names = (name.rpartition("/")[2] for name in store.list(f"{SHARD_INFO}/"))
    return frozenset(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))


def read_shards(store: Store, numbers: Sequence[int]) -> tuple[FinishedShard, ...]:
    """Reads the documents of finished shards."""
    names = (_info_name(number) for number in numbers)
    return tuple(parse_model(store.read(name), FinishedShard, name) for name in names)


def simulate_missing(pod: PodEnvironment, store: Store, liveness: LivenessFile) -> None:
    """Simulates the shards of this worker that the store lacks."""
    simulation, training = pod.config.simulation, pod.config.training
    done = finished_shards(store)
    own = simulation.shards_of(pod.peers.index, pod.peers.world)
    missing = [number for number in own if number not in done]
    _say(f"{len(own) - len(missing)} of {len(own)} shards of this worker are finished")
    if not missing:
        return
    from cloudgan.simulation.geant4.production import simulate_shards
    from cloudgan.simulation.geant4.workers import prepare_geant4

    folder = pod.work / "geant4"
    folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def on_showers(showers: int) -> None:
        nonlocal count
        count += showers
        liveness.update(count, 0)

    for shard in simulate_shards(
        simulation,
        training.seed,
        missing,
        prepare_geant4(folder, settings.geant4_data()),
        folder,
        processes=training.threads or this_machine().cores,
        version=__version__,
        on_showers=on_showers,
    ):
        for name, content in shard.content.items():
            store.put(f"{SHOWERS}/{name}", content)
        document = FinishedShard(
            shard=shard.info, source=shard.source, core_seconds=shard.core_seconds
        )
        store.put(_info_name(shard.number), document.model_dump_json().encode())
        rate = shard.info.records / shard.core_seconds if shard.core_seconds else 0.0
        _say(f"shard {shard.number}: {shard.info.records} showers, {rate:.3g} showers/s per core")


def finish(simulation: SimulationConfig, store: Store, liveness: LivenessFile) -> Manifest:
    """Waits for the shards of all workers and writes the manifest of the data set."""
    polls = 0
    while missing := simulation.shards - len(finished_shards(store)):
        if polls == 0:
            _say(f"waiting for {missing} shards of the other workers")
        polls += 1
        liveness.update(simulation.showers + polls, 0)
        time.sleep(_POLL_SECONDS)
    found = read_shards(store, range(simulation.shards))
    sources = {one.source.model_dump_json(): one.shard.files[0].name for one in found}
    if len(sources) > 1:
        raise DataError(
            f"the shards {' and '.join(sorted(sources.values())[:2])} were simulated with different"
            " versions of Geant4, tables or cloudgan; give one image, and simulate under another --name"
        )
    manifest = Manifest(
        records=simulation.showers,
        shape=found[0].source.shape,
        parts=tuple(one.shard for one in found),
        sources=(found[0].source,),
    )
    store.put(f"{SHOWERS}/{MANIFEST}", manifest_bytes(manifest))
    return manifest


def _info_name(number: int) -> str:
    return f"{SHARD_INFO}/{number:05d}.json"


def main() -> int:
    """Simulates the part of this worker; returns the exit code."""
    _end_with_agent()
    try:
        pod = read_pod_environment(settings.variable)
        store = open_store(pod.run_url)
        liveness = LivenessFile(settings.liveness_file())
        simulate_missing(pod, store, liveness)
        if pod.peers.is_chief:
            manifest = finish(pod.config.simulation, store, liveness)
            _say(f"{manifest.records} showers in {store.url}/{SHOWERS}")
    except CloudganError as error:
        _say(f"cloudgan: {error}")
        return error.exit_code
    except ModuleNotFoundError as error:
        _say(f"cloudgan: {error.name} is missing; run {install_command('geant4')}")
        return DataError.exit_code
    return 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the log of the worker


def _end_with_agent() -> None:
    """Ends this process at SIGTERM, and when the agent that holds its standard input ends.

    A shard is in the store as a whole or not at all, so there is nothing to save.
    """

    def end(*_: object) -> NoReturn:
        os._exit(TryAgain.exit_code)

    signal.signal(signal.SIGTERM, end)
    at_its_end(sys.stdin, end)


if __name__ == "__main__":
    sys.exit(main())
