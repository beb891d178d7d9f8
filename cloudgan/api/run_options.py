"""The options of a run: keyword arguments and flags, laid over run.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from cloudgan.core import settings
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError, show
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.cluster import visible_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.schema.ecal_unit import EcalUnit


class TrainingOptions(TypedDict, total=False):
    """What is trained and how, shared by `train`, `plan` and `deploy`; see `cloudgan train --help`."""

    data: str | None
    unit: EcalUnit | None
    held_out: float | None
    preset: str | None
    epochs: int | None
    batch: int | None
    global_batch: int | None
    loop: Literal["custom", "fit"] | None
    replicas: int | None
    precision: Literal["float32", "bfloat16", "mixed", "float64"] | None
    conv_impl: Literal["auto", "published", "phases", "fast"] | None
    scale_lr: Literal["none", "linear", "sqrt"] | None
    seed: int | None
    max_steps: int | None
    max_seconds: float | None
    steps_per_loop: int | None
    checkpoint_every_steps: int | None
    validate_every: int | None
    until: str | None
    patience: int | None
    smooth: int | None
    tensorboard: bool
    parallel: Literal["none", "downpour", "easgd", "gem"] | None
    ranks: int | None
    group: int | None
    masters: int | None
    sync_every: int | None
    master_sync_every: int | None
    elastic_force: float | None
    damping: Literal["staleness", "mean", "none"] | None
    synchronous: bool
    master_optimizer: Literal["sgd", "adam", "rmsprop", "adadelta"] | None
    stages: str | None
    trace: bool


class LocalOptions(TrainingOptions, total=False):
    """Options of a run on this machine."""

    engine: Literal["tensorflow", "jax"] | None
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] | None
    workers: int | None
    checkpoints: str | None
    init_from: str | None


_KEYS = {
    "data": "data.path",
    "unit": "data.unit",
    "held_out": "data.held_out_fraction",
    "preset": "model.preset",
    "batch": "training.batch_per_replica",
    "global_batch": "training.global_batch_size",
    "checkpoint_every_steps": "checkpoint.every_steps",
    "checkpoints": "checkpoint.url",
    "records_per_shard": "simulation.showers_per_shard",
    "parallel": "parallel.mode",
    "grid": "grid.rows",
    "neighbourhood_schedule": "grid.schedule",
    **{
        name: f"parallel.{name}"
        for name in (
            *("ranks", "group", "masters", "sync_every", "master_sync_every"),
            *("elastic_force", "damping", "synchronous", "master_optimizer", "stages"),
            "trace",
        )
    },
}
"""Options whose key in run.yaml is not ``training.NAME``."""

_ALTERNATIVES = {
    "training.batch_per_replica": "global_batch_size",
    "training.global_batch_size": "batch_per_replica",
}


_LONGEST_NAME = 255


def config_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options by their dotted keys in run.yaml; None is not set, and False sets no flag."""
    return {
        _KEYS.get(name, f"training.{name}"): None if value is False else value
        for name, value in options.items()
    }


def flag_of(dotted: str) -> str:
    """Returns the flag of a dotted key, in kebab-case."""
    own = {key: name for name, key in _KEYS.items()}
    name = own.get(dotted, dotted.rpartition(".")[2])
    return name.removesuffix("_gev").removesuffix("_deg").replace("_", "-")


def _default_preset(accelerated: bool | None) -> str:
    if accelerated is None:
        accelerated = settings.has_tpu() or bool(visible_gpus())
    return "paper" if accelerated else "mini"


def _is_folder_name(name: object) -> bool:
    if not isinstance(name, str) or name in {"", ".", ".."} or not name.isprintable():
        return False
    return "/" not in name and len(name.encode()) <= _LONGEST_NAME


def resolve(
    options: Mapping[str, Any],
    *,
    config: str | None,
    run: str | None,
    fresh: bool = False,
    accelerated: bool | None = None,
) -> tuple[RunConfig, RunFolder]:
    """Lays options over `--config`, or over the run.yaml of the run's folder.

    Where neither names a preset, it is paper with an accelerator, and mini without one or for a grid of
    cells: on two cores 60 epochs of paper take hours even with a few hundred showers.

    Args:
        options: Values by dotted key; None is not set.
        config: Path of a run.yaml.
        run: Path of the run's folder. Default: runs/NAME of the run.yaml, else runs/PRESET.
        fresh: Ignore the run.yaml of the run's folder.
        accelerated: Whether the run will have an accelerator. None: it trains on this machine.

    Raises:
        ConfigError: A file does not parse, or a value is not valid.
    """
    given = read_yaml(Path(config)) if config else {}
    model = given.get("model")
    in_file = model.get("preset") if isinstance(model, dict) else None
    preset, default = options.get("model.preset") or in_file, None
    if not preset:
        grid = options.get("grid.rows") or given.get("grid")
        preset = default = _default_preset(False if grid else accelerated)
    name = given.get("name", "") or str(preset)
    if config and not _is_folder_name(name):
        raise ConfigError(
            f"{config}: name is {show(name)}; expected the name of a folder in runs/, such as mine"
        )
    if run == "":
        raise ConfigError(f"--run= is empty; give a folder such as runs/{name}")
    folder = RunFolder(run or f"runs/{name}")
    source = config or "the command line"
    there = None if fresh else folder.read_config()
    if not config and there:
        given, source, default = there.model_dump(mode="json"), str(folder.config_file), None
    if default:
        options = {**options, "model.preset": default}
    if all(options.get(key) is not None for key in _ALTERNATIVES):
        raise ConfigError("--batch and --global-batch exclude each other: give one of them")
    for dotted, value in options.items():
        if value is None:
            continue
        section, _, key = dotted.partition(".")
        if not key:
            given = given | {section: value}
            continue
        part = given.get(section)
        if not isinstance(part, dict | None):
            raise ConfigError(f"{source}: {section} is {show(part)}; expected keys and values")
        part = dict(part or {})
        if dotted == "model.preset" and part.get("preset") != value:
            part = {}  # keys of another preset do not apply
        if dotted == "parallel.mode" and part.get("mode") != value:
            part = {"stages": part.get("stages", ())}  # nor do those of another mode
        part.pop(_ALTERNATIVES.get(dotted, ""), None)
        given = given | {section: part | {key: value}}
    return parse_config(given | {"name": folder.path.name}, source), folder
