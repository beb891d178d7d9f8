"""The library that trains, and what JAX does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.schema.config import RunConfig

EngineName = Literal["tensorflow", "jax"]


def check_engine(config: RunConfig) -> None:
    """Checks that the engine of a training supports all that the run asks for.

    Raises:
        ConfigError: JAX does not.
    """
    training, parallel = config.training, config.parallel
    if training.engine != "jax" or config.task != "train":
        return
    missing = {
        f"--parallel={parallel.mode}": parallel.has_ranks,
        f"--stages={','.join(parallel.stages)}": bool(parallel.stages),
        "--loop=fit": training.loop == "fit",
        "--precision=float64": training.precision == "float64",
        "--validate-every, --until and --patience": bool(training.validates_every),
        "--strategy=tpu": training.strategy == "tpu",
    }
    if found := [name for name, is_given in missing.items() if is_given]:
        raise ConfigError(
            f"--engine=jax does not support {' and '.join(found)}; omit it, or use"
            " --engine=tensorflow"
        )
