"""Showers of the cells in batches, their networks, and the ordinary training step's updates of single individuals.

Batches are functions of the position of random numbers.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.keras_pair import KerasPair, Network, adversarial_loss
from cloudgan.coevolution.task import Draw, Individual, Kind
from cloudgan.data.batches import Batch, TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.gan.cell_marginals import MarginalOutput
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.gan.networks import build_discriminator, build_generator
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.training import step as training
from cloudgan.training.calibration import recalibrator_of_training_set, scale_of_training_set
from cloudgan.training.gan import build_gan
from cloudgan.training.inference import Conditions, ShowerGenerator
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.tensorflow_backend import device_kind

Arrays = dict[str, NDArray[Any]]

_CELLS_IN_MEMORY = 2
"""Cells whose order is kept: those of one process train in turns."""


class ShowerBatches:
    """Batches of showers in the arrays that the training step reads.

    A cell passes through its showers in epochs of its own, which continue over its iterations. All
    cells of a process share the showers.
    """

    def __init__(
        self, showers: TrainingSet, config: CoevolutionConfig, blocks_per_group: int
    ) -> None:
        """Uses a training set; `blocks_per_group` as in `DataConfig`."""
        self._showers, self._config = showers, config
        self._per_group = blocks_per_group
        self._order = lru_cache(_CELLS_IN_MEMORY)(self._order_of)

    def training(self, draw: Draw, numbers: Sequence[int]) -> Arrays:
        """Returns training batches (batches, batch size, ...)."""
        size = self._config.batch_size
        own, sampler = self._order(draw.seed, draw.cell, draw.purpose)
        first = draw.iteration * self._config.batches
        rows = [sampler.rows(first + number, 0, size) for number in numbers]
        chosen = np.concatenate(rows)
        batch = self._showers.train_rows(chosen if own is None else own[chosen])
        arrays = {
            name: array.reshape(len(numbers), size, *array.shape[1:])
            for name, array in _arrays(batch).items()
        }
        steps = [position(draw, number) for number in numbers]
        return arrays | _places(np.array(steps, np.int64)[:, None])

    def held(self, draw: Draw, samples: int) -> Arrays:
        """Returns held-out showers (samples, ...), drawn without repetition as far as there are enough."""
        order = random_numbers(draw).permutation(self._showers.held_out_count)
        batch = self._showers.held_out_batch(np.resize(order, samples))
        return _arrays(batch) | _places(np.array([position(draw)], np.int64))

    def _order_of(
        self, seed: int, cell: int, purpose: int
    ) -> tuple[NDArray[np.int64] | None, EpochSampler]:
        """Returns the showers that a cell sees, None for all, and their order."""
        counts: tuple[int, ...] = self._showers.train_counts
        own = None
        if self._config.data_share < 1:
            size = math.ceil(self._config.data_share * self._showers.count)
            random = random_numbers(Draw(seed, cell, 0, Purpose.DATA_SHARE))
            own = np.sort(random.permutation(self._showers.count)[:size])
            counts = tuple(np.diff(np.searchsorted(own, np.cumsum((0, *counts)))).tolist())
        key = position(Draw(seed, cell, 0, purpose))
        return own, EpochSampler(counts, key, self._config.batch_size, self._per_group)


def position(draw: Draw, *more: int) -> int:
    """Returns a number of 63 bits for a position, such as the step at which `Rng` stands.

    A hash: a collision of two of a million batches has a probability of 1e-7.
    """
    return int(random_numbers(draw, *more).integers(2**63))


def _arrays(batch: Batch[NDArray[np.float32]]) -> Arrays:
    return batch._asdict() | {"image": batch.image[..., np.newaxis]}


def _places(steps: NDArray[np.int64]) -> Arrays:
    return {"step": steps, "first_row": np.zeros_like(steps)}


_NOISE_SEEDS = 2**32
"""Seeds that `Rng` distinguishes."""
_RECALIBRATED = 4096
"""Generators whose recalibrated constants are kept, some numbers each."""


class ShowerPair(KerasPair):
    """Generator and discriminator of a preset; individuals keep the generator's average beside it.

    As in an ordinary run, the average is recalibrated before it generates, and is not for the losses.
    """

    def __init__(
        self,
        config: CoevolutionConfig,
        run: RunConfig,
        showers: TrainingSet,
        conditions: Callable[[int], Conditions],
    ) -> None:
        self._preset, self._conditions = run.model, conditions
        self._shower_batches = ShowerBatches(showers, config, run.data.blocks_per_group)
        rng = Rng(run.training.seed)
        self._gan = gan = build_gan(
            run.model,
            rng,
            precision=run.training.precision,
            learning_rates=(config.learning_rate, config.learning_rate),
            conv_impl=choose_conv_impl(run, device_kind()),
        )
        self._tables = _table_numbers(gan.generator)
        if run.model.cell_marginals:
            # Imports scipy.interpolate: an eighth of the Python time of a short training run.
            from cloudgan.training.marginal_tables import measure_marginals  # noqa: PLC0415

            gan.set_marginals(measure_marginals(run.model, showers))
        self._measured = [
            number
            for number, weight in enumerate(gan.generator.weights)
            if not weight.trainable and number not in self._tables
        ]
        self._recalibrated: dict[bytes, dict[int, NDArray[np.float32]]] = {}
        self._recalibrator = recalibrator_of_training_set(run.model, rng, showers)
        self._step_of = partial(
            GanStep,
            gan,
            run.model,
            rng,
            layer_target=np.array(showers.summary.layer_fraction),
            shape_scale=scale_of_training_set(run.model, showers),
        )
        self._step = self._step_of(global_batch_size=config.batch_size)
        self._images = ShowerGenerator(run.model)
        average = gan.ema_generator.weights if gan.ema_generator else []
        generator = Network(
            gan.generator,
            gan.generator_optimizer,
            tuple(average),
            tuple(w[n] for w in (gan.generator.weights, average) if w for n in self._tables),
        )
        discriminator = Network(gan.discriminator, gan.discriminator_optimizer)
        super().__init__(generator, discriminator, batch_size=config.batch_size)

    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns training showers, each array (batches, batch size, ...)."""
        return self._shower_batches.training(draw, numbers)

    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns held-out showers, (samples, ...)."""
        return self._shower_batches.held(draw, samples)

    def update_generator(self, batch: dict[str, tf.Tensor], loss: tf.Tensor) -> None:
        """Updates the generator as a training step does, then its average."""
        showers = cast("training.Batch", batch)
        # Only a shape loss compares with showers of the generator before its update.
        has_shape = self._preset.loss_weights["shape"]
        fake = self._step.fake(showers) if has_shape else batch["image"]
        self._step.train_generator(
            showers, fake, partial(adversarial_loss, loss, of_generator=True)
        )
        self._step.update_ema_generator()

    def update_discriminator(self, batch: dict[str, tf.Tensor], loss: tf.Tensor) -> None:
        """Updates the discriminator on real, then on fake showers."""
        showers = cast("training.Batch", batch)
        self._step.train_discriminator(
            showers,
            self._step.fake(showers),
            partial(adversarial_loss, loss, of_generator=False),
        )

    def fake(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns showers (B, X, Y, Z, 1), and the shape features of others with the same conditions."""
        return self._step.sample(cast("training.Batch", batch))

    def judge_real(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the total loss on held-out showers, as an ordinary run computes it."""
        return self._judging_step(batch).judge_real(cast("training.Batch", batch))[-1]

    def judge_fakes(
        self, batch: dict[str, tf.Tensor], fakes: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the total losses of both on the showers of each generator, one after the other."""
        step = self._judging_step(batch)

        def totals(fake: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            return tf.stack(step.judge_fake(cast("training.Batch", batch), *fake))[:, -1]

        found = tf.map_fn(totals, fakes, fn_output_signature=tf.float32, parallel_iterations=1)
        return found[:, 1], found[:, 0]

    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns the first weights of a network; the generator's with those of its average."""
        seeds = random.Random(seed)
        if kind == "discriminator":
            network = build_discriminator(self._preset, None, seeds=seeds)
            return list(network.get_weights())
        weights = build_generator(self._preset, seeds=seeds).get_weights()
        for number in self._tables:
            weights[number] = self._gan.generator.weights[number].numpy()
        if self._recalibrator:
            weights = self._recalibrator.recalibrate(weights)
        own = [weight for number, weight in enumerate(weights) if number not in self._tables]
        return [*own, *own] if self._gan.ema_generator else own

    def generate(
        self,
        draw: Draw,
        generator: Individual,
        samples: int,
        rows: NDArray[np.intp] | None = None,
    ) -> NDArray[np.float32]:
        """Returns showers (N, X, Y, Z) in GeV; shower n has the n-th condition, see `Showers`."""
        self._images.set_weights(self._inference_weights(generator))
        conditions = self._conditions(samples)
        if rows is not None:
            conditions = conditions.take(rows)
        blocks = self._images.showers(conditions, seed=position(draw) % _NOISE_SEEDS)
        return np.concatenate([block.ecal_gev for block in blocks])

    def generator_weights(self, generator: Individual) -> dict[str, NDArray[np.float32]]:
        """Returns the weights of the recalibrated average with its tables, by name."""
        weights = map(
            np.asarray, self._inference_weights(generator)
        )  # Keras has a number for a constant
        return dict(zip(super().generator_weights(generator), weights, strict=True))

    def _inference_weights(self, generator: Individual) -> list[NDArray[np.float32]]:
        """Returns what an ordinary run saves and validates, in Keras order."""
        self._load_weights(generator)
        weights: list[NDArray[np.float32]] = self._gan.inference_generator.get_weights()
        if not (self._gan.ema_generator and self._recalibrator):
            return weights
        # Several cells of a process generate with one individual.
        key = hashlib.sha256(generator.state.data).digest()
        if key not in self._recalibrated:
            found = self._recalibrator.recalibrate(weights)
            if len(self._recalibrated) == _RECALIBRATED:
                del self._recalibrated[next(iter(self._recalibrated))]
            self._recalibrated[key] = {number: found[number] for number in self._measured}
        for number, values in self._recalibrated[key].items():
            weights[number] = values
        return weights

    def _judging_step(self, batch: dict[str, tf.Tensor]) -> GanStep:
        return self._step_of(global_batch_size=batch["energy"].shape[0])


def _table_numbers(generator: keras.Model) -> frozenset[int]:
    """Returns the numbers, in Keras order, of the weights that are measured on showers."""
    tables = {
        id(weight)
        for layer in generator.layers
        if isinstance(layer, MarginalOutput)
        for weight in layer.weights
    }
    return frozenset(n for n, weight in enumerate(generator.weights) if id(weight) in tables)
