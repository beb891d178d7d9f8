"""job.yaml: a launch in a file, and the user's own defaults.

A flag goes before a key of job.yaml, that before a key of the user's file, and that before the built-in default.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cloudgan.api.launch_options import LaunchFlags
from cloudgan.core import settings
from cloudgan.core.documents import read_text, read_yaml
from cloudgan.core.errors import ConfigError, nearest
from cloudgan.core.options import Option, build, options_of

Launch = TypeVar("Launch", bound=LaunchFlags)
_GROUPED = "limits"
"""Key whose own keys are flags of the topic Limits."""
_RUN = "run"
_SHOWERS = {".h5", ".hdf5", ".parquet", ".tfrecord"}
_NOT_IN_A_FILE = frozenset({"job", "command", "yes", "dry_run", "detach", "output"})


def with_job_file(options: Launch) -> Launch:
    """Lays the flags that were given over job.yaml, and both over the user's file.

    Raises:
        ConfigError: A file cannot be read, or a key or a value is not valid; names line and column.
    """
    model = type(options)
    own = settings.config_folder() / "cloudgan.yaml"
    layers = [_read(own, model)] if own.is_file() else []
    if options.job:
        layers.append(_read(Path(options.job), model))
    if not layers:
        return options
    values: dict[str, Any] = {}
    for layer in (*layers, options):
        given = {name: getattr(layer, name) for name in layer.model_fields_set}
        if {"command", "run_keys", "config"} & given.keys():
            for name in ("command", *(["run_keys", "config"] if "command" in given else [])):
                values.pop(name, None)
        if "run_keys" in values and "run_keys" in given:
            given["run_keys"] = values["run_keys"] | given["run_keys"]
        values |= given
    return model.model_validate(values)


def _read(path: Path, model: type[Launch]) -> Launch:
    if path.suffix.lower() in _SHOWERS or path.is_dir():
        raise ConfigError(
            f"{path} is no job.yaml; showers stand behind --, as in `cloudgan deploy --provider=gcp -- train {path}`,"
            f" or give --data={path}"
        )
    document = read_yaml(path)
    root = yaml.compose(read_text(path, ConfigError), Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return model()
    keys = {_key(one): one.keyword for one in options_of(model)}
    known = keys.keys() - _NOT_IN_A_FILE
    given: dict[str, Any] = {}
    for key_node, value_node in root.value:
        key = str(key_node.value)
        if key == _RUN:
            words = document[key]
            given["command"] = shlex.split(words) if isinstance(words, str) else words
        elif key == _GROUPED and isinstance(value_node, yaml.MappingNode):
            for inner, _ in value_node.value:
                _check(path, str(inner.value), inner, known, f"{_GROUPED}.")
                given[keys[str(inner.value)]] = document[key][inner.value]
        else:
            _check(path, key, key_node, {*known, _GROUPED, _RUN}, "")
            given[keys[key]] = document[key]
    if "command" in given and "data" in given:
        given["command"] = [*given["command"], f"--data={given.pop('data')}"]
    return build(model, given, command="cloudgan deploy", source=str(path))


def _key(option: Option) -> str:
    """Returns the key in a file: that of a repeated flag is the plural, as in ``secrets: [KEY]``."""
    return option.key if option.flag.is_repeated else option.keyword


def _check(path: Path, key: str, node: yaml.Node, known: set[str], prefix: str) -> None:
    if key not in known:
        mark = node.start_mark
        raise ConfigError(
            f"{path}, line {mark.line + 1}, column {mark.column + 1}: unknown key {prefix}{key}."
            f"{nearest(key, known)} `cloudgan schema job.yaml` lists the valid ones"
        )


def job_schema() -> dict[str, Any]:
    """Returns the JSON schema of job.yaml."""
    schema = LaunchFlags.model_json_schema()
    properties = {}
    for one in options_of(LaunchFlags):
        if one.keyword in _NOT_IN_A_FILE or one.owner:
            continue
        properties[_key(one)] = schema["properties"][one.key]
    limits = {
        one.keyword: properties.pop(one.keyword)
        for one in options_of(LaunchFlags)
        if one.flag.topic == "Limits" and not one.owner
    }
    run = {"type": "string", "description": "command line of the job, such as train --preset=mini"}
    properties |= {
        _GROUPED: {"type": "object", "properties": limits, "additionalProperties": False},
        _RUN: run,
        "data": {"type": "string", "description": "showers"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "job.yaml of cloudgan deploy",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": schema.get("$defs", {}),
    }


def as_mapping(options: LaunchFlags) -> Mapping[str, Any]:
    """Returns what was given as the keys of a job.yaml."""
    given: dict[str, Any] = {}
    for one in options_of(type(options)):
        if one.key not in options.model_fields_set or one.keyword in _NOT_IN_A_FILE or one.owner:
            continue
        value = getattr(options, one.key)
        given[_key(one)] = list(value) if isinstance(value, tuple) else value
    return given
