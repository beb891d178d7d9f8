"""The program `cloudgan`: its commands, by group."""

from __future__ import annotations

from cloudgan import __version__
from cloudgan.cli.options.parsing import Program

_GROUPS = {
    "Train and evaluate": {
        "demo": "small training, report",
        "simulate": "make showers",
        "convert": "HDF5, TFRecord to shards",
        "train": "train on this machine",
        "generate": "showers of a trained run",
        "validate": "compare with Monte Carlo",
        "export": "ONNX, Keras, SavedModel",
        "evolve": "a grid of competing GANs",
        "search": "hyper-parameters",
        "crossvalidate": "folds on this machine",
        "bench": "measure this machine",
        "schema": "JSON schemas",
    },
    "Launch": {
        "plan": "show what deploy would do",
        "deploy": "start a run and follow it",
        "status": "state and cost of runs",
        "logs": "output of all workers",
        "exec": "command beside a worker",
        "shell": "shell beside a worker",
        "tensorboard": "losses in TensorBoard",
        "cancel": "stop a run, keep data",
        "down": "delete a run's resources",
        "adopt": "run of another machine",
        "image": "build a container image",
        "worker": "run in a pod (internal)",
    },
    "Cost": {
        "offers": "nodes by price and speed",
        "prices": "price catalog, refresh",
        "cost": "cost of a finished run",
        "compare": "runs, or the paper",
    },
    "Account": {
        "check": "login, permissions, quota",
        "setup": "bucket, identities, once",
        "doctor": "resources and orphans",
    },
}


def _target(name: str) -> str:
    function = name.replace("-", "_")
    return f"cloudgan.cli.commands.{function}:{function}"


_BENCH = Program(
    name="cloudgan bench",
    summary="measures this machine; variants alternate in one run, medians have a spread.",
    version=__version__,
    commands={
        name: f"cloudgan.cli.commands.bench:{function}"
        for name, function in {
            "step": "step",
            "input": "input_",
            "generate": "generate",
        }.items()
    }
    | {
        "bandwidth": "cloudgan.cli.commands.bench_bandwidth:bandwidth",
        "cells": "cloudgan.cli.commands.bench_cells:cells",
        "parallel": "cloudgan.cli.commands.bench_parallel:parallel",
        "scaling": "cloudgan.cli.commands.bench_scaling:scaling",
    },
)

PROGRAM = Program(
    name="cloudgan",
    summary="trains calorimeter GANs, launches and prices runs, validates physics",
    version=__version__,
    commands={name: _target(name) for group in _GROUPS.values() for name in group}
    | {"bench": _BENCH},
    groups=_GROUPS,
)
