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
from cloudgan.models.differentiable_observables import shape_weights
from cloudgan.models.networks import latent_length
from cloudgan.training.draws import Call
from cloudgan.training.engines.jax_draws import JaxDraws
from cloudgan.training.engines.jax_step import JaxStep, Place, first_state
from cloudgan.training.gan import LearningRates, build_gan

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.schema.presets import Preset
    from cloudgan.training.engines.jax_step import Batch, State

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
    """The networks of one conv_impl in one precision."""

    def __init__(self, preset: Preset, conv_impl: str, precision: str) -> None:
        """Builds them; all variants begin with the same weights."""
        arithmetic, self._multiply = PRECISIONS[precision]
        self.conv_impl, self.precision = conv_impl, precision
        self._preset, self._draws = preset, JaxDraws(0)
        self._gan = build_gan(
            preset,
            self._draws,
            seed=0,
            precision=arithmetic,
            synchronized=False,
            learning_rates=LearningRates(preset.learning_rate, preset.learning_rate),
            stages=find_conv_impl(conv_impl),
        )
        self.state = first_state(self._gan)

    def _step(self, size: int) -> JaxStep:
        """Returns the step of a batch size, with constants of no data set, but of the right size."""
        return JaxStep(
            self._gan,
            self._preset,
            self._draws,
            global_batch_size=size,
            layer_target=np.full(self._preset.image_shape[2], 8e-4),
            shape_scale=np.ones(len(shape_weights(self._preset)), np.float32),
        )

    def lowered(self, program: str, batch: Batch) -> tuple[Any, tuple[Any, ...]]:
        """Returns a program as XLA gets it, and what it is called with."""
        image, number = batch["image"], np.int32(0)  # traced, or XLA would draw while it compiles
        step = self._step(len(image))
        call: Callable[..., Any]
        arguments: tuple[Any, ...]
        if program == STEP:
            call, arguments = step, (self.state, batch, Place(number, np.int32(0)))
        elif program.startswith("generator"):
            call, arguments = _generator(program, step), (self.state, batch["latent"], image)
        else:
            call, arguments = self._discriminator(program, step), (self.state, image, number)
        with jax.default_matmul_precision(self._multiply):
            return jax.jit(call).lower(*arguments), arguments

    def _discriminator(self, program: str, step: JaxStep) -> Callable[..., Any]:
        """Its gradient is of the weights and of the image: a step needs each, in different passes."""

        def forward(state: State, image: Any, number: Any) -> Any:
            with self._draws.at(number, 0, Call.REAL):
                return step.discriminate(state, image)

        def gradient(state: State, image: Any, number: Any) -> Any:
            def summed(weights: list[Any], image: Any) -> tuple[Any, list[Any]]:
                outputs, statistics = forward(state._replace(discriminator=weights), image, number)
                return sum(jnp.sum(output) for output in outputs), statistics

            return jax.grad(summed, (0, 1), has_aux=True)(state.discriminator, image)

        return forward if program.endswith("forward") else gradient


def _generator(program: str, step: JaxStep) -> Callable[..., Any]:
    def forward(state: State, latent: Any, pull: Any) -> Any:
        del pull
        return step.generate(state, latent)

    def gradient(state: State, latent: Any, pull: Any) -> Any:
        def pulled(weights: list[Any]) -> tuple[Any, list[Any]]:
            image, statistics = forward(state._replace(generator=weights), latent, pull)
            return jnp.vdot(image, pull), statistics

        return jax.grad(pulled, has_aux=True)(state.generator)

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


def random_batch(preset: Preset, size: int) -> Batch:
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
