"""A small valid project: each file that a command reads, which the cases damage."""

import contextlib
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from cloudgan.cli.main import main
from cloudgan.schema import launch
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.launch import Attempt, Launch, Node
from data.conftest import make_store
from records import checkpoint_state, epoch, started, stopped, write_run

SHAPE = (9, 9, 25)
RUN_YAML = {
    "name": "mine",
    "data": {"path": "showers.h5"},
    "model": {"preset": "smoke"},
    "training": {"epochs": 2, "batch_per_replica": 4, "validation_showers": 2},
    "checkpoint": {"keep": 2},
}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "lab",
    "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:9"}}],
    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "gan"}}],
    "users": [{"name": "me", "user": {"token": "planted-token"}}],
}
OWN_PRICES = b"""date: 2026-11-20
nodes:
  - {offer: lab/cpu/room-1, usd_per_hour: 0.2}
  - {offer: lab/dgx/room-1, accelerator: "A100-40GB:8", usd_per_hour: 6, market: spot}
"""
GATES = b"""schema_version = 2
[[gate]]
measure = "response"
where = "?*"
title = "energy response"
good = 0.02
acceptable = 0.035
message = "The energy response is {which}: {value:.3f} at {where} ({percent:+.1f} %)"
"""
BILL = {
    "ServiceName": "Compute Engine",
    "ServiceCategory": "Compute",
    "ChargeCategory": "Usage",
    "ChargePeriodEnd": "2026-11-21 13:00:00 UTC",
    "Tags": [{"key": "cloudgan-run", "value": "mine"}],
    "BilledCost": 1.5,
    "BillingCurrency": "USD",
}
PRICES = b"""provider,node_type,accelerator,accelerator_count,accelerator_memory_gib,vcpu,memory_gib,region,market,\
usd_per_hour,unit_sold,source,date,confidence,snapshot,kind,note
gcp,n1-standard-8+1xV100,V100,1,16,8,30,us-central1,on_demand,2.86,parts,a test,2026-11-21,A,current,node,
gcp,n1-standard-8+1xV100,V100,1,16,8,30,us-central1,spot,0.9,parts,a test,2026-11-21,A,current,node,
"""
BILL_CSV = b"""ChargeCategory,ChargePeriodEnd,ServiceName,ServiceCategory,BillingCurrency,BilledCost,Tags
Usage,2026-11-21T14:00:00Z,AmazonEC2,Compute,USD,1.5,"{""cloudgan-run"": ""mine""}"
Credit,2026-11-21T14:00:00Z,AmazonEC2,Compute,USD,-0.5,"{""cloudgan-run"": ""mine""}"
"""
STATE = {
    "phase": "finished",
    "workers": [{"index": 0, "phase": "done", "pid": 4194303, "start_time": "1", "restarts": 0}],
    "started_at": "2026-11-21T12:00:00Z",
    "ended_at": "2026-11-21T12:50:00Z",
}
FILES = {
    "run.yaml": yaml.safe_dump(RUN_YAML).encode(),
    "kubeconfig": yaml.safe_dump(KUBECONFIG).encode(),
    "own-prices.yaml": OWN_PRICES,
    "timings.csv": b"n,seconds,nodes\n2,1784.42,1\n4,900.49,1\n8,456.62,1\n16,229.66,2\n32,117.56,4\n",
    "gates.toml": GATES,
    "bill.json": json.dumps(BILL).encode() + b"\n",
    "bill.csv": BILL_CSV,
    "prices/prices/gcp.csv": PRICES,
    "aws-config": b"[default]\nregion = eu-west-1\noutput = json\n\n[profile lab]\nregion = us-east-1\n",
}


def make_project(folder: Path) -> Path:
    """Writes the project into an empty folder."""
    folder.mkdir(parents=True)
    write_showers(folder / "showers.h5")
    make_store(folder / "store", folder / "showers.h5", part=4)
    (folder / "prices" / "prices").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    config = parse_config(RUN_YAML, "run.yaml")
    trained = {"steps": 2, "samples": 6, "losses": {"generator": {"total": 1.0}}}
    run = write_run(
        folder / "runs" / "mine",
        started(config_hash=config.config_hash(), training_showers=6, held_out_showers=2),
        epoch(0, step=2, **trained),
        epoch(1, 8, step=4, **trained),
        stopped(4, 60, train_seconds=18),
        **RUN_YAML,
    ).path
    launch.write(run / "launch.json", _launch(config))
    (run / "verdict.json").write_text(json.dumps({"schema_version": 2, "passed": True}))
    (run / "plan.json").write_text(_plan(folder))
    (run / "pods").mkdir()
    (run / "pods" / "state.json").write_text(json.dumps(STATE))
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-000000004.npz").write_bytes(checkpoint(config))
    return folder


def _plan(folder: Path) -> str:
    """Returns the plan of a run on this machine, as the command prints it."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            main(["plan", "--config=run.yaml", "--name=mine", "--json"])
        except SystemExit as ended:
            if ended.code:
                raise
    return output.getvalue()


def write_showers(path: Path, count: int = 8, **changes: Any) -> None:
    """Writes showers in the public layout; `changes` replace datasets, None leaves one out."""
    random = np.random.default_rng(0)
    energy = random.uniform(10, 100, count).astype(np.float32)
    ecal = random.exponential(size=(count, *SHAPE)).astype(np.float32)
    ecal *= (energy / ecal.sum((1, 2, 3)))[:, None, None, None]  # 2 % of the energy, in GeV * 50
    theta = np.linspace(1.1, 2.0, count, dtype=np.float32)
    datasets = {"ECAL": ecal, "energy": energy, "theta": theta, "mtheta": theta} | changes
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            if values is not None:
                file[name] = values
        file.attrs["source"] = "a test"
        if changes.get("ECAL", ecal) is ecal:
            file["ECAL"].attrs["cloudgan_ecal_per_gev"] = 50.0


def framed(content: bytes) -> bytes:
    """Returns a record of a TFRecord file, with its checksums."""
    length = len(content).to_bytes(8, "little")
    return length + _masked_checksum(length) + content + _masked_checksum(content)


def _masked_checksum(content: bytes) -> bytes:
    """CRC-32C, masked (https://www.tensorflow.org/tutorials/load_data/tfrecord, 2026-11-22)."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    found ^= 0xFFFFFFFF
    masked = ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked.to_bytes(4, "little")


def checkpoint(config: RunConfig, **changes: Any) -> bytes:
    """Returns a checkpoint with two small arrays; `changes` replace arrays or keys of its metadata."""
    state = checkpoint_state(4, config)
    meta = state.model_dump_json().encode()
    arrays = {
        "generator/00": np.ones((2, 3), np.float32),
        "discriminator/00": np.ones(4, np.float32),
        "meta.json": np.frombuffer(meta, np.uint8),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays | changes)
    return buffer.getvalue()


def _launch(config: RunConfig) -> Launch:
    up = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    node = Node(name="n0", started_at=up, last_seen_at=up, terminated_at=up + dt.timedelta(hours=1))
    attempt = Attempt(
        provider="gcp", account="lab", region="us-central1", node_type="n1-standard-8+1xV100",
        market="spot", node_count=1, nodes=(node,), end_reason="finished", egress_gib=0.1,
        stored_gib_months=0.1, program_started_at=up,
        program_ended_at=up + dt.timedelta(minutes=50),
    )  # fmt: skip
    return Launch(run="mine", config_hash=config.config_hash(), attempts=(attempt,))
