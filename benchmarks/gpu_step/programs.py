"""What is timed: the whole step and its parts, compiled for one variant and one batch size."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.gpu_step.conv_impls import find_conv_impl
from benchmarks.gpu_step.report import STEP
from cloudgan.gan.differentiable_observables import shape_weights
from cloudgan.gan.networks import latent_length
from cloudgan.training.gan import build_gan
from cloudgan.training.jax_backend import pure
from cloudgan.training.rng import Call, Rng
from cloudgan.training.step import GanStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.schema.presets import Preset

# The precision of a run, and how XLA multiplies float32: what bfloat16 leaves in float32 stays exact.
PRECISIONS = {
    "float32": ("float32", "float32"),
    "tf32": ("float32", "tensorfloat32"),
    "bfloat16": ("bfloat16", "float32"),
}
PARTS = (
    "generator_forward",
    "generator_gradient",
    "discriminator_forward",
    "discriminator_gradient",
)


class Variant:
    """The networks of one conv_impl in one precision.

    Attributes:
        state: Values of all variables, those of the trained weights first.
        learned: Number of trained weights of both networks.
    """

    def __init__(self, preset: Preset, conv_impl: str, precision: str) -> None:
        """Builds them; all variants begin with the same weights."""
        arithmetic, self._multiply = PRECISIONS[precision]
        self.conv_impl, self.precision = conv_impl, precision
        self._preset, self._rng = preset, Rng(0)
        self._gan = gan = build_gan(
            preset, self._rng, precision=arithmetic, stages=find_conv_impl(conv_impl)
        )
        trained = [*gan.generator.trainable_variables, *gan.discriminator.trainable_variables]
        known = {id(variable) for variable in trained}
        others = (each for each in gan.variables().values() if id(each) not in known)
        self._variables, self.learned = [*trained, *others], len(trained)
        self.state = [variable.value for variable in self._variables]

    def lowered(self, program: str, batch: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """Returns a program as XLA gets it, and what it is called with.

        The constants of the step are of no data set, but of the right size.
        """
        size = len(batch["image"])
        # Traced, or XLA would draw while it compiles.
        place = {name: jnp.zeros(1, jnp.int32) for name in ("step", "first_row")}
        call: Callable[..., Any] = GanStep(
            self._gan,
            self._preset,
            self._rng,
            global_batch_size=size,
            layer_target=np.full(self._preset.image_shape[2], 8e-4),
            shape_scale=np.ones(len(shape_weights(self._preset)), np.float32),
        )
        if program != STEP:
            call = self._part(program)
        arguments = (self.state, batch | place)
        with jax.default_matmul_precision(self._multiply):
            return jax.jit(pure(call, self._variables)).lower(*arguments), arguments

    def _part(self, program: str) -> Callable[[dict[str, Any]], Any]:
        """The gradient of a discriminator is of weights and image: a step needs each, in different passes."""
        of_generator = program.startswith("generator")
        network = self._gan.generator if of_generator else self._gan.discriminator
        given = "latent" if of_generator else "image"

        def forward(batch: dict[str, Any]) -> Any:
            with self._rng.at(batch["step"][0], 0, Call.REAL):
                return network(batch[given], training=True)

        def gradient(batch: dict[str, Any]) -> Any:
            values = [variable.value for variable in self._variables]
            size = len(network.trainable_variables)
            first = 0 if of_generator else self.learned - size

            def summed(weights: list[Any], x: Any) -> tuple[Any, list[Any]]:
                changed = [*values[:first], *weights, *values[first + size :]]
                output, after = pure(forward, self._variables)(changed, batch | {given: x})
                if of_generator:
                    return jnp.vdot(output, batch["image"]), after
                return sum(jnp.sum(each) for each in output), after

            sources = (0,) if of_generator else (0, 1)
            weights = values[first : first + size]
            return jax.grad(summed, sources, has_aux=True)(weights, batch[given])

        return forward if program.endswith("forward") else gradient


@dataclass(frozen=True)
class Program:
    """A compiled program with its arguments.

    Attributes:
        compile_seconds: Wall time, beside the other compilations of its batch size.
        flops: As XLA counts the convolutions and the rest before it rearranges them; None: unknown.
        moved_bytes: As XLA adds up what its kernels read and write; None: unknown.
        temporary_bytes: Device memory beside arguments and results; None: unknown.
    """

    run: Callable[[], Any]
    compile_seconds: float
    flops: float | None
    moved_bytes: float | None
    temporary_bytes: float | None

    def seconds(self, count: int) -> float:
        """Runs `count` times and returns the seconds of all."""
        began = time.perf_counter()
        for _ in range(count):
            result = self.run()
        jax.block_until_ready(result)
        return time.perf_counter() - began


def compiled(lowered: Any, arguments: tuple[Any, ...]) -> Program:
    """Compiles; may be called in several threads at once."""
    began = time.perf_counter()
    executable = lowered.compile()
    seconds = time.perf_counter() - began
    memory = None
    with contextlib.suppress(Exception):  # what a backend cannot tell it may refuse in any way
        memory = float(executable.memory_analysis().temp_size_in_bytes)
    return Program(
        run=lambda: executable(*arguments),
        compile_seconds=seconds,
        flops=_counted(lowered, "flops"),
        moved_bytes=_counted(executable, "bytes accessed"),
        temporary_bytes=memory,
    )


def _counted(program: Any, name: str) -> float | None:
    """One figure of XLA's cost analysis."""
    with contextlib.suppress(Exception):
        analysis = program.cost_analysis()
        analysis = analysis[0] if isinstance(analysis, list) else analysis
        return float(analysis[name]) or None
    return None


def random_batch(preset: Preset, size: int) -> dict[str, Any]:
    """Returns showers of no physics: sparse, of the right shapes and magnitudes; 32 are different."""
    rng = np.random.default_rng(0)
    shape = (min(size, 32), *preset.image_shape)
    cells = rng.gamma(0.1, 1.0, shape) * (rng.random(shape) < 0.2)  # noqa: PLR2004
    cells = np.resize(cells.astype(np.float32), (size, *preset.image_shape))
    latent = rng.standard_normal((size, latent_length(preset))).astype(np.float32)
    latent[:, 0], latent[:, 1] = 0.5, 1.5
    arrays = {
        "image": cells[..., None] ** preset.image_power,
        "energy": np.full((size, 1), 0.5, np.float32),
        "angle": np.full((size, 1), 1.5, np.float32),
        "ecal": cells.sum((1, 2, 3))[:, None],
        "latent": latent,
    }
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def is_out_of_memory(error: Exception) -> bool:
    """Whether XLA means that the device has no memory left."""
    text = str(error).lower()
    return "resource_exhausted" in text or "out of memory" in text
