"""The options of a run: keyword arguments and flags, laid over run.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloudgan.core import settings
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError, show
from cloudgan.core.options import flags_in
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.cluster import visible_gpus

_ALTERNATIVES = {
    "training.batch_per_replica": "global_batch_size",
    "training.global_batch_size": "batch_per_replica",
}
_LONGEST_NAME = 255


def flag_of(dotted: str) -> str:
    """Returns the flag of a dotted key of run.yaml, in kebab-case."""
    section, _, key = dotted.partition(".")
    known = flags_in(CoevolutionConfig) if section == "grid" else flags_in(RunConfig)
    wanted = key if section == "grid" else dotted
    return next((one.name for one in known if one.key == wanted), "grid")


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
) -> tuple[RunConfig, RunFolder]:
    """Lays options by dotted key (None: not set) over `--config`, or over the run.yaml of the run's folder.

    Where neither names a preset, it is paper with an accelerator, and mini without one or for a grid of
    cells: on two cores 60 epochs of paper take hours even with a few hundred showers. The folder `run` is
    by default runs/NAME of the run.yaml, else runs/PRESET; its run.yaml is ignored if it is to be `fresh`.
    """
    given = read_run_yaml(config)
    chosen: Mapping[str, Any] = with_preset(options, given, None)
    name = given.get("name", "") or str(chosen.get("model.preset") or given["model"]["preset"])
    if run == "":
        raise ConfigError(f"--run= is empty; give a folder such as runs/{name}")
    folder = RunFolder(run or f"runs/{name}")
    source = config or "the command line"
    there = None if fresh else folder.read_config()
    if not config and there:
        given, source, chosen = there.model_dump(mode="json"), str(folder.config_file), options
    found = lay_over(chosen, given, source)
    return parse_config(found | {"name": folder.path.name}, source), folder


def read_run_yaml(config: str | None) -> dict[str, Any]:
    """Returns the keys of a run.yaml; without one, none."""
    if not config:
        return {}
    given = read_yaml(Path(config))
    name = given.get("name", "") or "mine"
    if not _is_folder_name(name):
        raise ConfigError(
            f"{config}: name is {show(name)}; expected the name of a folder in runs/, such as mine"
        )
    return given


def with_preset(
    options: Mapping[str, Any], given: Mapping[str, Any], accelerated: bool | None
) -> dict[str, Any]:
    """Returns the options with the default preset, where neither they nor the file name one.

    `accelerated` says whether the run will have an accelerator; None: it trains on this machine.
    """
    model = given.get("model")
    if options.get("model.preset") or (isinstance(model, dict) and model.get("preset")):
        return dict(options)
    if options.get("grid.rows") or given.get("grid"):
        accelerated = False
    elif accelerated is None:
        accelerated = settings.has_tpu() or bool(visible_gpus())
    return {**options, "model.preset": "paper" if accelerated else "mini"}


def lay_over(options: Mapping[str, Any], given: dict[str, Any], source: str) -> dict[str, Any]:
    """Returns the keys of a run.yaml, called `source`, with options by dotted key laid over them; None: not set."""
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
        if dotted == "model.preset" and part.get("preset") not in (None, value):
            part = {}  # keys of another preset do not apply
        if dotted == "parallel.mode" and part.get("mode") != value:
            part = {"stages": part.get("stages", ())}  # nor do those of another mode
        part.pop(_ALTERNATIVES.get(dotted, ""), None)
        given = given | {section: part | {key: value}}
    return given
