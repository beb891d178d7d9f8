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
from benchmarks.gpu_step.jax_step import REAL, JaxStep, build_networks, first_state
from benchmarks.gpu_step.report import STEP
from benchmarks.gpu_step.rng import KeyedDraws, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpu_step.jax_step import Batch, State
    from cloudgan.schema.presets import Preset

# The policy of Keras, and how XLA multiplies float32: what bfloat16 leaves in float32 stays exact.
PRECISIONS = {
    "float32": ("float32", "float32"),
    "tf32": ("float32", "tensorfloat32"),
    "bfloat16": ("mixed_bfloat16", "float32"),
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
        policy, self._multiply = PRECISIONS[precision]
        self.conv_impl, self.precision = conv_impl, precision
        self._rng = KeyedDraws()
        stages = find_conv_impl(conv_impl)
        self._networks = build_networks(preset, self._rng, stages, policy)
        # The mean layer energy of no data set: it only has to be of the right size.
        target = np.full(preset.image_shape[2], 8e-4)
        self._step = JaxStep(self._networks, preset, self._rng, target)
        self.state = first_state(self._networks, preset)

    def lowered(self, program: str, batch: Batch) -> tuple[Any, tuple[Any, ...]]:
        """Returns a program as XLA gets it, and what it is called with."""
        image, key = batch["image"], key_of(0)
        call: Callable[..., Any]
        arguments: tuple[Any, ...]
        if program == STEP:
            call, arguments = self._step, (self.state, batch, key)
        elif program.startswith("generator"):
            call, arguments = self._generator(program), (self.state, batch["latent"], image, key)
        else:
            call, arguments = self._discriminator(program), (self.state, image, key)
        with jax.default_matmul_precision(self._multiply):
            return jax.jit(call).lower(*arguments), arguments

    def _generator(self, program: str) -> Callable[..., Any]:
        def forward(state: State, latent: Any, pull: Any, key: Any) -> Any:
            del pull, key
            return self._step.generate(state, latent)

        def gradient(state: State, latent: Any, pull: Any, key: Any) -> Any:
            def pulled(weights: list[Any]) -> tuple[Any, list[Any]]:
                image, statistics = forward(state._replace(generator=weights), latent, pull, key)
                return jnp.vdot(image, pull), statistics

            return jax.grad(pulled, has_aux=True)(state.generator)

        return forward if program.endswith("forward") else gradient

    def _discriminator(self, program: str) -> Callable[..., Any]:
        """Its gradient is of the weights and of the image: a step needs each, in different passes."""

        def forward(state: State, image: Any, key: Any) -> Any:
            with self._rng.at(key, REAL):
                return self._step.discriminate(state, image)

        def gradient(state: State, image: Any, key: Any) -> Any:
            def summed(weights: list[Any], image: Any) -> tuple[Any, list[Any]]:
                outputs, statistics = forward(state._replace(discriminator=weights), image, key)
                return sum(jnp.sum(output) for output in outputs), statistics

            return jax.grad(summed, (0, 1), has_aux=True)(state.discriminator, image)

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
    latent = rng.standard_normal((size, preset.latent_size)).astype(np.float32)
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
