"""Imports the engine of a training."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from cloudgan.api.tensorflow_import import import_tensorflow, require_tensorflow
from cloudgan.core import settings
from cloudgan.core.hardware import this_machine

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.training_config import EngineName
    from cloudgan.training.context import StartEngine
    from cloudgan.training.environment_checks import ComputeOptions


def require_engine(engine: EngineName) -> None:
    """Checks that the engine is installed, without the import; call it before something is written.

    Raises:
        ModuleNotFoundError: It is not.
    """
    if engine == "tensorflow":
        require_tensorflow()
        return
    for package in ("jax", "jaxlib"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"no package {package}", name="jax")


def prepare_engine(config: RunConfig, options: ComputeOptions, *, supervised: bool) -> None:
    """Sets the variables that JAX and Keras read at import; call it before showers are converted.

    Args:
        config: Of the run.
        options: Threads, among others.
        supervised: Whether the workers of the run share the cores of this machine.
    """
    if config.training.engine == "jax":
        workers_here = config.training.workers if supervised else 1
        settings.set_for_jax(options.threads or max(1, this_machine().cores // workers_here))


def import_engine(engine: EngineName, progress: Progress) -> StartEngine:
    """Imports the library of an engine; returns the class of the engine.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    if engine == "tensorflow":
        progress.start("loading TensorFlow")
        import_tensorflow()
        from cloudgan.training.engines.tensorflow_engine import TensorFlowEngine

        return TensorFlowEngine
    progress.start("loading JAX")
    from cloudgan.training.engines.jax_engine import JaxEngine

    return JaxEngine
