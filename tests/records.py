"""Documents: the lines of record.jsonl of a training on a CPU, a heartbeat, the price of a node, a kubeconfig.

Each function takes changes of the fields, for what a test is about.
"""

from cloudgan.core.hardware import Hardware
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RunFolder

NOON = "2026-11-21T12:00:00Z"


def numerics(**changes):
    usual = {
        "processor": "a chip",
        "device": "CPU",
        "threads": 2,
        "replicas": 1,
        "workers": 1,
        "global_batch_size": 64,
        "precision": "float32",
        "math_library": "oneDNN",
        "tensorflow": "2.21",
        "keras": "3.15",
    }
    return record.Numerics(**usual | changes)


def checkpoint_state(step, config=None, *, best=None, **summary):
    """The metadata of a checkpoint; `summary` are changes of what it says of its training showers."""
    from cloudgan.data.summary import TrainingSummary
    from cloudgan.training.checkpoint import State

    usual = {
        "count": 10,
        "sampled": 10,
        "energy_range_gev": (10, 100),
        "theta_range_rad": (1.1, 2.0),
        "mtheta_range_rad": (1.0, 2.1),
        "layer_fraction": (0.04,) * 25,
        "mean_image_sum_per_unit": 1.0,
        "contained_fraction": 1.0,
        "angle_fit": None,
    }
    config = config or RunConfig()
    return State(
        step=step,
        train_seconds=1.5,
        config_hash=config.config_hash(),
        config=config,
        numerics=numerics(),
        summary=TrainingSummary(**usual | summary),
        best=best,
    )


def started(step=0, **changes):
    usual = {
        "time": NOON,
        "config_hash": "abc",
        "training_showers": 640,
        "held_out_showers": 64,
        "hardware": Hardware(processor="a chip", cores=2, memory_gib=4),
        "numerics": numerics(),
        "versions": {},
        "git_commit": None,
        "strategy": "one",
        "loop": "custom",
        "learning_rate": 0.001,
        "notes": (),
        "startup_seconds": 5,
    }
    return record.Started(step=step, **usual | changes)


def epoch(number, seconds=10.0, **changes):
    """An epoch of 10 steps; only the first one may trace, of which this one did nothing."""
    steps = changes.get("steps", 10)
    usual = {
        "time": NOON,
        "step": 10 * number + steps,
        "first": number == 0,
        "complete": True,
        "steps": steps,
        "samples": 64 * steps,
        "carried_samples": 0,
        "dropped_samples": 0,
        "train_seconds": seconds,
        "trace_seconds": 0,
        "validation_seconds": 2,
        "checkpoint_seconds": 1,
        "samples_per_second": 64 * steps / seconds if seconds else 0.0,
        "losses": {},
        "held_out_losses": None,
    }
    return record.Epoch(epoch=number, **usual | changes)


def validated(number, metric, **changes):
    usual = {
        "time": NOON,
        "step": 10 * (number + 1),
        "showers": 64,
        "metrics": {"metric": metric},
        "seconds": 1,
        "ranked_by": "metric",
        "best": True,
        "program_seconds": 5 + 12 * (number + 1),
    }
    return record.Validated(epoch=number, **usual | changes)


def resumed(step):
    return record.Resumed(time=NOON, step=step, path="p", reproducibility_changes=())


def stopped(step, seconds=60, reason="finished", **changes):
    usual = {"time": NOON, "program_seconds": seconds, "train_seconds": seconds}
    return record.Stopped(step=step, reason=reason, **usual | changes)


def heartbeat(**changes):
    usual = {
        "time": NOON,
        "config_hash": "0" * 16,
        "phase": "training",
        "world": 1,
        "missing_workers": (),
        "generation": 1,
        "restarts": 0,
        "epochs": 2,
    }
    return Heartbeat(**usual | changes)


def kubeconfig(server="https://lab.example:6443", **user):
    """A kubeconfig of the context lab; its user has a token, or what is given."""
    return {
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "users": [{"name": "lab", "user": user or {"token": "planted-token"}}],
        "current-context": "lab",
    }


def price_row(**changes):
    """A node with eight V100 on spot."""
    usual = {
        "provider": "gcp",
        "node_type": "n1-standard-96+8xV100",
        "accelerator": "V100",
        "accelerator_count": 8,
        "accelerator_memory_gib": 16,
        "vcpu": 96,
        "memory_gib": 360,
        "region": "us-central1",
        "market": "spot",
        "usd_per_hour": 36.0,
        "unit_sold": "parts",
        "source": "a price list",
        "date": "2026-11-01",
        "confidence": "A",
        "snapshot": "current",
    }
    return PriceRow(**usual | changes)


def write_run(folder, *lines, **config):
    """Writes the lines into a record and, if it is given, the configuration into a run.yaml."""
    run = RunFolder(folder)
    run.create()
    if config:
        run.write_config(parse_config(config, "a test"))
    for line in lines:
        record.append(run.record_file, line)
    return run
