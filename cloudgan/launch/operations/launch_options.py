"""Options of plan, deploy and check; and job.yaml, a launch in a file, with the user's own defaults.

A flag goes before a key of job.yaml, that before a key of the user's file, and that before the built-in default.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import yaml
from pydantic import model_validator

from cloudgan.core import settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.documents import read_text, read_yaml
from cloudgan.core.errors import ConfigError, nearest
from cloudgan.core.flags import DURATION, FILE, flag
from cloudgan.core.options import Option, build, options_of
from cloudgan.core.ranges import MAX_PROCESSES
from cloudgan.launch.plan.flags import AUTO, NodeFlags
from cloudgan.launch.plan.request import LaunchRequest, job_options
from cloudgan.schema.options.shared import PRICE_AS, YES

Launch = TypeVar("Launch", bound=LaunchRequest)
_GROUPED = "limits"
"""Key whose own keys are flags of the topic Limits."""
_RUN = "run"
_SHOWERS = {".h5", ".hdf5", ".parquet", ".tfrecord"}
_NOT_IN_A_FILE = frozenset({"job", "command", "yes", "dry_run", "detach", "output", "save"})


class PlanOptions(LaunchRequest):
    """Shows what `deploy` would create, how long the run takes and what it costs.

    Runs offline, needs no login, and spends nothing.

    Examples:
        cloudgan plan --provider=gcp --accelerator=l4 --nodes=2 -- train showers.h5
        cloudgan plan --provider=cheapest --accelerator=l4 -- train showers.h5
        cloudgan plan job.yaml --budget-usd=20
    """

    output: Annotated[Path | None, FILE] = flag(
        None,
        "write manifests or scripts there; for `kubectl apply -f FOLDER`, or for Slurm",
        "Output",
        placeholder="FOLDER",
    )
    save: Annotated[Path | None, FILE] = flag(
        None, "write a job.yaml that plans the same, such as job.yaml", "Output", screen=True
    )

    @model_validator(mode="after")
    def _of_one_run(self) -> Self:
        if self.output and self.seeds is not None:
            raise ConfigError("--output writes the manifests of one run: give --seed, not --seeds")
        return self


class DeployOptions(LaunchRequest):
    """Starts a job on a cloud, a cluster or this machine, follows it, fetches results.

    Plan and price are shown, and confirmation is asked for, before anything is created. Rerun the command to follow the
    run, to resume it, or to print the result of a finished run. Ctrl-C leaves the run running: `cloudgan status`,
    `logs`, `cancel` and `down` work from any machine.

    Without capacity, --fallback selects other offers; with --market=auto, on-demand nodes replace spot nodes. Each try is
    an attempt in launch.json.

    Examples:
        cloudgan deploy --provider=gcp --accelerator=l4 --nodes=2 -- train showers.h5
        cloudgan deploy --provider=slurm --store=/data --nodes=4 -- evolve showers.h5
        cloudgan deploy job.yaml --budget-usd=20
    """

    dry_run: bool = flag(False, "show the plan and stop; as `cloudgan plan`", "Run", screen=True)
    detach: bool = flag(
        False, "do not follow the run; return once it is started", "Run", screen=True
    )
    yes: bool = YES
    allow_stale_price: bool = flag(
        False,
        "accept an old price; with --yes, one that is undated or older than 90 days and that the cloud does not refresh",
        "Price",
    )

    @model_validator(mode="after")
    def _is_followed(self) -> Self:
        if self.detach and self.seeds is not None:
            raise ConfigError(
                "--detach and --seeds: this machine starts each run when the one before has ended; omit"
                " --detach, or deploy each --seed on its own"
            )
        return self


class CheckOptions(NodeFlags):
    """Is my login ready? Checks login, APIs, permissions and quota of each cloud.

    Creates nothing and spends nothing. With --accelerator it checks quota in the cheapest region and
    market, or those of --region and --market. Exits with 2 if something is missing: in the cloud of
    --provider, else in every cloud.

    Examples:
        cloudgan check
        cloudgan check --provider=gcp --accelerator=l4 --nodes=2
    """

    provider: str | None = flag(
        None,
        "{names}",
        "Where",
        screen=True,
        words="all",
        names=lambda: dict.fromkeys(CLOUDS, ""),
        placeholder="NAME",
    )
    accelerator: str | None = flag(
        None,
        "also the quota of it; NAME or NAME:COUNT per node, such as v100:8",
        "Where",
        screen=True,
        placeholder="A[:N]",
    )
    nodes: int = flag(1, "for so many nodes", "Where", screen=True, ge=1, le=MAX_PROCESSES)
    price_as: str | None = PRICE_AS
    reservation: str | None = flag(
        None,
        "reservation to check; as its cloud names it, see docs/clouds.md",
        "Where",
        screen=True,
    )

    @model_validator(mode="after")
    def _in_one_cloud(self) -> Self:
        if self.provider is None and (self.regions or self.zone):
            raise ConfigError(
                f"--region and --zone are in one cloud: add --provider={', '.join(CLOUDS)}"
            )
        if self.reservation and (self.provider is None or self.accelerator is None):
            raise ConfigError(
                "--reservation is of one node type in one cloud: give --provider and --accelerator"
            )
        return self


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
        if "command" in given:
            values = {name: values[name] for name in values.keys() - {"run_keys", "config"}}
        elif {"run_keys", "config"} & given.keys() and values.get("command", ())[:1] == ("train",):
            values["run_keys"], values["config"] = job_options(values.pop("command")).training
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
    if not path.exists():
        raise ConfigError(f"there is no file {path}; `cloudgan init job {path}` writes one")
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
            given["command"] = _words(path, value_node, document[key])
        elif key == _GROUPED:
            if not isinstance(value_node, yaml.MappingNode):
                raise ConfigError(
                    f"{_place(path, value_node)}: limits={document[key]}: give keys, such as"
                    " {budget_usd: 20, max_hours: 6}"
                )
            for inner, _ in value_node.value:
                _check(path, str(inner.value), inner, known, f"{_GROUPED}.")
                given[keys[str(inner.value)]] = document[key][inner.value]
        else:
            _check(path, key, key_node, {*known, _GROUPED, _RUN}, "")
            given[keys[key]] = document[key]
    data = given.pop("data", None)
    if isinstance(data, list | dict):
        raise ConfigError(f"{path}: data={data}: give one file, folder or URL of showers")
    if given.get("command") and data is not None:
        given["command"] = [*given["command"], f"--data={data}"]
    elif data is not None:
        given["data"] = data
    return build(model, given, command="cloudgan deploy", source=str(path))


def _key(option: Option) -> str:
    """Returns the key in a file: that of a repeated flag is the plural, as in ``secrets: [KEY]``."""
    return option.key if option.flag.is_repeated else option.keyword


def _words(path: Path, node: yaml.Node, given: Any) -> list[str] | None:
    """Returns the words of the job, from a line or a list."""
    try:
        words = shlex.split(given) if isinstance(given, str) else given
    except ValueError as error:  # such as a quotation mark that is not closed
        raise ConfigError(f"{_place(path, node)}: run={given}: {error}") from error
    if words is not None and (not isinstance(words, list) or not words):
        raise ConfigError(
            f"{_place(path, node)}: run={given}: give the command line of the job, such as train"
            " --preset=mini"
        )
    return words and [str(word) for word in words]


def _place(path: Path, node: yaml.Node) -> str:
    return f"{path}, line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


def _check(path: Path, key: str, node: yaml.Node, known: set[str], prefix: str) -> None:
    if key not in known:
        raise ConfigError(
            f"{_place(path, node)}: unknown key {prefix}{key}."
            f"{nearest(key, known)} `cloudgan schema job.yaml` lists the valid ones"
        )


def job_schema() -> dict[str, Any]:
    """Returns the JSON schema of job.yaml."""
    schema = LaunchRequest.model_json_schema()
    properties = {}
    for one in options_of(LaunchRequest):
        if one.keyword in _NOT_IN_A_FILE or one.owner:
            continue
        properties[_key(one)] = schema["properties"][one.key]
    several = {"type": "array", "items": {"enum": list(CLOUDS)}, "minItems": 1}
    properties["provider"] = {"anyOf": [properties["provider"], several]}
    limits = {
        one.keyword: properties.pop(one.keyword)
        for one in options_of(LaunchRequest)
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


def save_job(options: LaunchRequest, path: Path) -> None:
    """Writes what was given as a job.yaml, which plans the same.

    Raises:
        ConfigError: The file exists.
    """
    check_new(path)
    text = yaml.safe_dump(as_mapping(options), sort_keys=False, allow_unicode=True)
    write_atomic(path, text.encode())


def check_new(path: Path) -> None:
    """Refuses to replace a job.yaml, whose comments would be lost.

    Raises:
        ConfigError: The file exists, or its folder does not.
    """
    if path.exists():
        raise ConfigError(f"{path} exists; remove it, or give another name: --save=FILE")
    if not path.parent.is_dir():
        raise ConfigError(f"--save={path}: the folder {path.parent} does not exist; create it")


def as_mapping(options: LaunchRequest) -> dict[str, Any]:
    """Returns what was given as the keys of a job.yaml."""
    given: dict[str, Any] = {}
    for one in options_of(type(options)):
        place = getattr(options, one.owner) if one.owner else dict(options)
        is_given = one.key in (place if one.owner else options.model_fields_set)
        if is_given and one.keyword not in _NOT_IN_A_FILE:
            given[_key(one)] = _plain(one, place[one.key])
    if options.command:
        given[_RUN] = shlex.join(options.command)
    return given


def _plain(option: Option, value: Any) -> Any:
    """Returns a value as YAML has it; no number of nodes is the word for the cheapest number."""
    if value is None:
        return AUTO
    if option.text is DURATION:
        return f"{value:g}s"
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
