"""Speed-up of each optimisation of the training step: `python benchmarks/step_parts.py [--preset=paper]`.

Variants of the step run in turns in one process. Each compared pair differs by one optimisation. All
start with the same weights and, except for one, the same random numbers: their first losses agree.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from cloudgan.core import settings

settings.quiet_tensorflow()  # before TensorFlow is imported: it turns oneDNN on, as `cloudgan` does

import keras
import tensorflow as tf
from keras import ops

from cloudgan.bench.measurement import Rounds, paired
from cloudgan.bench.step_work import StepWork
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Silent
from cloudgan.models.cpu_kernels.convolution import Team
from cloudgan.models.cpu_kernels.fusion import Fusion
from cloudgan.models.differentiable_observables import AngleAndSum
from cloudgan.models.layers import ConvolutionLayer, KerasMasks, PhaseStages, PublishedStages
from cloudgan.schema.presets import PROFILES
from cloudgan.training.fft_conv import FftConv, FftStages, geometry_of, transforms_pay
from cloudgan.training.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.models.layers import Stage, StageBuilder

SAME_LOSS = 1e-4  # batch norm's moments are float64 in some, float32 in others


class Transforming:
    """A convolution by transforms alone, without fused operations."""

    def __init__(self, team: Team) -> None:
        self._team, self._leak = team, 1.0

    def convolution(self, stage: Stage, x: Any) -> Any:
        """Convolves by transforms where the fft implementation does."""
        if not transforms_pay(stage):
            return super().convolution(stage, x)  # type: ignore[misc]
        return Alone(stage, self._team, self._leak, name=f"conv{stage.number}")(x)


class TransformsOnly(Transforming, PublishedStages):
    """Up-samples as published."""


class PhasesAndTransforms(Transforming, PhaseStages):
    """Everything of the fast form that is no fusion."""


class WithActivation(PhasesAndTransforms):
    """Bias and activation are done as a convolution writes."""

    def stage(self, stage: Stage, x: Any) -> Any:
        """Takes the activation from the layers of Keras."""
        if not transforms_pay(stage):
            return super().stage(stage, x)
        self._leak = stage.leak
        return super().stage(replace(stage, leak=1.0), x)


class WithMoments(FftStages):
    """Batch norm's moments are summed as a convolution writes; it is applied in a pass of its own."""

    def stage(self, stage: Stage, x: Any) -> Any:
        """Leaves nothing pending."""
        return super().stage(stage, self.tensor(x))


class Alone(ConvolutionLayer):
    """(B, x, y, z, channels) -> activation of the convolution."""

    def __init__(self, stage: Stage, team: Team, leak: float, **kwargs: Any) -> None:
        super().__init__(stage.block, stage.initializer, **kwargs)
        self._team, self._leak = team, leak

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the weights and writes the programs."""
        x, y, z, channels = (int(size or 0) for size in input_shape[1:])
        self.add_weights(channels)
        self._sizes = geometry_of(self._block, (x, y, z), channels)
        self._run = FftConv(self._sizes, Fusion(leak=self._leak), self._team)

    def compute_output_spec(self, image: Any) -> keras.KerasTensor:
        """Returns what Keras would have to trace otherwise."""
        shape = (image.shape[0], *self._sizes.output, self._sizes.filters)
        return keras.KerasTensor(shape, "float32")

    def call(self, image: Any) -> tf.Tensor:
        """Convolves."""
        ones = tf.ones((self._sizes.channels,))
        kernel = tf.convert_to_tensor(self.kernel)
        none = tf.zeros((self._sizes.filters,))
        bias = tf.convert_to_tensor(self.bias) if self._block.bias else none
        active, _, _ = self._run(tf.convert_to_tensor(image), ones, 0 * ones, kernel, bias)
        return active


class MasksOfKeras(Rng):
    """Dropout as Keras draws it: 32 bits a value, as a number between 0 and 1."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._masks = KerasMasks(seed)

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> tf.Tensor:
        """Returns another mask than the other forms have."""
        return self._masks.dropout_mask(shape, rate, stream)


class SumsOneByOne(AngleAndSum):
    """Energy and first moments by a pass over the image for each."""

    def layer_moments(self, cells: Any) -> tuple[Any, Any, Any]:
        """Returns what the contraction gives."""
        rows = ops.convert_to_tensor(self._moments, cells.dtype)
        one, x, y = (ops.sum(cells * rows[:, number, :, None], axis=1) for number in range(3))
        return one, x, y


def apply_of_keras(optimizer: Any, weights: Any, gradients: Any) -> None:
    """The optimiser's own forty operations a weight."""
    optimizer.apply(gradients, weights)


@dataclass(frozen=True)
class Form:
    """A way to compute the step.

    Attributes:
        stages: Makes the stages.
        patches: What stands for parts of the program, by where they are.
        draws_alike: Whether it draws the numbers that the others draw.
    """

    stages: StageBuilder
    patches: dict[str, Any] = field(default_factory=dict)
    draws_alike: bool = True


class Comparison(NamedTuple):
    """An optimisation, and the names of two forms: one that lacks it, one that has it."""

    optimisation: str
    without: str
    having: str


def forms(team: Team) -> dict[str, Form]:
    """All forms, by name."""
    fast = FftStages(team)
    return {
        "published, masks of Keras": Form(
            PublishedStages(), {"cloudgan.bench.step_work.Rng": MasksOfKeras}, draws_alike=False
        ),
        "published": Form(PublishedStages()),
        "phases": Form(PhaseStages()),
        "transforms": Form(TransformsOnly(team)),
        "phases and transforms": Form(PhasesAndTransforms(team)),
        "these and activation": Form(WithActivation(team)),
        "these and moments": Form(WithMoments(team)),
        "fast": Form(fast),
        "fast, update of Keras": Form(fast, {"cloudgan.training.step.update": apply_of_keras}),
        "fast, sums one by one": Form(fast, {"cloudgan.models.networks.AngleAndSum": SumsOneByOne}),
    }


COMPARISONS = (
    Comparison("dropout masks from 16 bits a value", "published, masks of Keras", "published"),
    Comparison("up-sampling by phases", "published", "phases"),
    Comparison("convolutions by transforms", "published", "transforms"),
    Comparison("convolutions by transforms", "phases", "phases and transforms"),
    Comparison(
        "bias and activation as they write", "phases and transforms", "these and activation"
    ),
    Comparison("batch norm's moments as they write", "these and activation", "these and moments"),
    Comparison("batch norm and dropout as they read", "these and moments", "fast"),
    Comparison("energy and angle by one contraction", "fast, sums one by one", "fast"),
    Comparison("update in a few operations a weight", "fast, update of Keras", "fast"),
    Comparison("all but the masks", "published", "fast"),
)


class SilentProgress(Silent):
    """Shows each measurement."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Prints which form had its turn."""
        del amount
        print(note, file=sys.stderr, flush=True)


def measure(preset: str, rounds: int, asked: dict[str, Form]) -> dict[str, list[dict[str, float]]]:
    """Seconds and CPU seconds of a step, by the name of the form, in the order of the rounds.

    Raises:
        RuntimeError: Two forms do not compute the same.
    """
    training = {
        "batch_per_replica": 16 if PROFILES[preset].steps_per_loop == 1 else 32,
        "strategy": "one",
    }
    config = {"model": {"preset": preset}, "training": training}
    works, losses = {}, {}
    for name, form in asked.items():
        with ExitStack() as stack:
            patches = form.patches | {"cloudgan.training.gan.make_stages": _making(form.stages)}
            for place, dummy_batches in patches.items():
                stack.enter_context(patch(place, dummy_batches))
            works[name] = StepWork(config)
            built = works[name].answer("warm_up", {})
        print(f"{name}: first loss {built['first_loss']:.6g}", file=sys.stderr)
        if form.draws_alike:
            losses[name] = built["first_loss"]
            check(losses)
    ask = {"steps": built["steps"]}
    rounds_run = Rounds({name: partial(work.answer, "round", ask) for name, work in works.items()})
    rounds_run.run(rounds, SilentProgress())
    return rounds_run.results


def check(first_losses: dict[str, float]) -> None:
    """Raises RuntimeError where forms that draw the same numbers disagree: nothing to compare."""
    least, most = min(first_losses.values()), max(first_losses.values())
    if most - least > SAME_LOSS * abs(least):
        raise RuntimeError(f"these forms are not the same function: first losses {first_losses}")


def _making(stages: StageBuilder) -> Callable[[str], StageBuilder]:
    return lambda _: stages


def table(taken: dict[str, list[dict[str, float]]]) -> list[str]:
    """Lines of Markdown."""
    lines = [
        "| optimisation | measured between | brings, by the clock | by CPU time |",
        "| --- | --- | --- | --- |",
    ]
    for what, without, having in COMPARISONS:
        if not {without, having} <= taken.keys():
            continue
        ratios = [
            paired([r[key] for r in taken[without]], [r[key] for r in taken[having]]).describe()
            for key in ("seconds", "cpu_seconds")
        ]
        lines.append(f"| {what} | {without}; {having} | {' | '.join(ratios)} |")
    return lines


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--preset", default="paper", choices=list(PROFILES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", action="append", metavar="FORM", help="this form and others named"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    every = forms(Team(this_machine().cores))
    if unknown := set(asked.only or ()) - every.keys():
        parser.error(f"no form is called {', '.join(unknown)}; there are: {', '.join(every)}")
    chosen = {name: form for name, form in every.items() if name in (asked.only or every)}
    taken = measure(asked.preset, asked.rounds, chosen)
    text = json.dumps(taken) if asked.json else "\n".join(table(taken))
    print(text, flush=True)  # TensorFlow takes minutes to release so many graphs


if __name__ == "__main__":
    main()
