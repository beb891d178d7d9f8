"""What is measured against what: a configuration of training, and variables of its process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from cloudgan.core.config import Kernels, parse_config
from cloudgan.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.config import RunConfig

_SETTINGS = {"precision": str, "replicas": int, "threads": int}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Variant:
    """One way to do the same work.

    Attributes:
        name: As people call it: the formulation and what else was said.
        config: Preset, batch, precision, replicas, threads and kernels are used of it.
        environment: Variables that its process gets beside ours.
    """

    name: str
    config: RunConfig
    environment: dict[str, str] = field(default_factory=dict)


def make_variant(
    kernels: str, preset: str, training: Mapping[str, Any], environment: Mapping[str, str]
) -> Variant:
    """Makes a variant.

    Args:
        kernels: auto, published or fast.
        preset: Whose networks.
        training: Keys of `training` in run.yaml; None is not said.
        environment: Variables of its process.

    Raises:
        ConfigError: A value is not allowed.
    """
    if training.get("precision") == "mixed":
        raise ConfigError(
            "precision mixed is another arithmetic on other machines; to measure one, say bfloat16 or"
            " float32"
        )
    said = {key: value for key, value in training.items() if value is not None}
    config = parse_config(
        {"model": {"preset": preset}, "training": said | {"kernels": kernels}}, "the command line"
    )
    return Variant(kernels, config, dict(environment))


def parse_against(text: str, own: Variant, preset: str, training: Mapping[str, Any]) -> Variant:
    """Reads such as ``published`` or ``fast:precision=bfloat16,TF_ENABLE_ONEDNN_OPTS=0``.

    Args:
        text: A formulation; after a colon what else differs: settings, and variables in capitals.
        own: What it is compared with, whose name it must not share.
        preset: Whose networks.
        training: The settings of `own`, which hold where `text` says nothing.

    Raises:
        ConfigError: No such formulation or setting, or a value that is not allowed.
    """
    kernels, _, rest = text.partition(":")
    if kernels not in get_args(Kernels):
        raise UnknownNameError("formulation in --against", kernels, (*get_args(Kernels), "none"))
    settings: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(
                f"--against={text}: {part!r} is no KEY=VALUE, such as precision=bfloat16 or"
                " TF_ENABLE_ONEDNN_OPTS=0"
            )
        if _VARIABLE.fullmatch(key):
            environment[key] = value
        else:
            settings[key] = _setting(key, value)
    made = make_variant(kernels, preset, dict(training) | settings, environment)
    name = f"{kernels} ({rest.replace(',', ', ')})" if rest else kernels
    return Variant(f"{name}, again" if name == own.name else name, made.config, environment)


def _setting(key: str, value: str) -> Any:
    if key not in _SETTINGS:
        raise UnknownNameError("setting in --against", key, _SETTINGS)
    if _SETTINGS[key] is int and not value.isdecimal():
        raise ConfigError(f"--against: {key} is a whole number, got {value!r}")
    return _SETTINGS[key](value)
