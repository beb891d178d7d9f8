"""From flags and files to the configuration and the folder of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.core.config import RunConfig, parse_config
from cloudgan.core.errors import ConfigError
from cloudgan.run_folder import RunFolder, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALTERNATIVES = {
    "training.batch_per_replica": "global_batch_size",
    "training.global_batch_size": "batch_per_replica",
}


def resolve(
    asked: Mapping[str, Any], *, config: str | None, run: str | None, fresh: bool = False
) -> tuple[RunConfig, RunFolder]:
    """Lays flags over `--config`, or over what the run's folder remembers.

    Args:
        asked: Values by dotted key; None was not asked.
        config: Path of a run.yaml.
        run: Path of the run's folder.
        fresh: Leave out what that folder remembers: flags and file say everything.

    Raises:
        ConfigError: A file does not parse, or a value is not allowed.
    """
    given = read_yaml(Path(config)) if config else {}
    name = given.get("name") or asked.get("model.preset") or "paper"
    if run and "://" in run:
        raise ConfigError(
            f"--run={run}: a run's folder is on this machine, such as runs/{name};"
            f" --checkpoints={run} copies its checkpoints there"
        )
    folder = RunFolder(run or f"runs/{name}")
    source = config or "the command line"
    there = None if fresh else folder.read_config()
    if not config and there:
        given, source = there.model_dump(mode="json"), str(folder.config_file)
    if all(asked.get(key) is not None for key in _ALTERNATIVES):
        raise ConfigError("--batch and --global_batch are alternatives: give one of them")
    for dotted, value in asked.items():
        if value is None:
            continue
        section, key = dotted.split(".")
        part = given.get(section)
        part = dict(part) if isinstance(part, dict) else {}
        if dotted == "model.preset" and part.get("preset") != value:
            part = {}  # another preset's keys are not this one's
        part.pop(_ALTERNATIVES.get(dotted, ""), None)
        given = given | {section: part | {key: value}}
    return parse_config(given | {"name": folder.path.name}, source), folder
