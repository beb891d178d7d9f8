"""The networks of one process, into which the individuals of all its cells are loaded.

Tracing costs seconds and swapping the variables of a network milliseconds, so a process traces each
function once, however many cells it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.coevolution.task import KINDS, Draw, Individual, Kind
from cloudgan.core.errors import DataError
from cloudgan.gan.losses import binary_crossentropy
from cloudgan.ranks.flat import FlatLayout, Floats
from cloudgan.schema.coevolution import ADVERSARIAL_LOSSES

Batch = dict[str, tf.Tensor]

_CALL_BYTES = 2**25
"""Batches that one call of the device receives, 32 MB: memory stays bounded, a call costs 0.2 ms."""


@dataclass(frozen=True)
class Network:
    """A network with its optimiser.

    `inference_weights` are those of the averaged model that generates; empty without one. `constants` are
    measured on the data and equal in all individuals of a run, such as tables; they are no part of an
    individual's state.
    """

    model: keras.Model
    optimizer: keras.Optimizer
    inference_weights: tuple[keras.Variable, ...] = ()
    constants: tuple[keras.Variable, ...] = ()

    def weights(self) -> list[keras.Variable]:
        """Returns the weights of an individual: of the model, then of its average."""
        fixed = {id(each) for each in self.constants}
        every = (*self.model.weights, *self.inference_weights)
        return [each for each in every if id(each) not in fixed]

    def variables(self) -> list[keras.Variable]:
        """Returns the variables of an individual; its learning rate is kept beside them."""
        rate = self.optimizer.learning_rate
        return [*self.weights(), *(v for v in self.optimizer.variables if v is not rate)]


class Fakes(NamedTuple):
    """What several generators made of one held batch.

    `samples` is what `KerasPair.fake` returns, of all generators, each array (G, ...).
    """

    batch: Batch
    samples: Any


class KerasPair(ABC):
    """A pair of Keras networks; a task defines batches, updates and losses."""

    def __init__(self, generator: Network, discriminator: Network, *, batch_size: int) -> None:
        """Uses two networks; call it after they are built."""
        self._networks: dict[Kind, Network] = {
            "generator": generator,
            "discriminator": discriminator,
        }
        self._batch_size = batch_size
        self._variables = {kind: net.variables() for kind, net in self._networks.items()}
        self.layouts = {kind: _layout(self._networks[kind], kind) for kind in KINDS}
        self._loss = dict.fromkeys(KINDS, 0)
        self._train: Any = None
        self._set = {
            kind: tf.function(partial(_assign, self._variables[kind]), autograph=False)
            for kind in KINDS
        }
        self._get = {kind: _getter(self._variables[kind]) for kind in KINDS}
        self._make_fake = self.with_weights("generator", self.fake)
        self._judges: dict[int, Any] = {}

    @abstractmethod
    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns training batches, each array (batches, batch size, ...)."""

    @abstractmethod
    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns a batch of held-out data with all that `fake`, `judge_real` and `judge_fakes` read, (samples, ...)."""

    @abstractmethod
    def update_generator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the generator; `loss` is the number of its adversarial loss."""

    @abstractmethod
    def update_discriminator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the discriminator; `loss` is the number of its adversarial loss."""

    @abstractmethod
    def fake(self, batch: Batch) -> Any:
        """Returns what the generator makes of a batch, in inference mode: what `judge_fakes` reads.

        `generate` expects one tensor of samples; a task with more overrides it.
        """

    @abstractmethod
    def judge_real(self, batch: Batch) -> tf.Tensor:
        """Returns the loss of the discriminator on the real samples of a held batch, a scalar."""

    @abstractmethod
    def judge_fakes(self, batch: Batch, fakes: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns losses on the fake samples of each generator, (G,): of it, and of the discriminator.

        With `judge_real` they are the losses by which all individuals are compared.
        """

    @abstractmethod
    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns the first weights of a network, in the order of `Network.variables`."""

    def initial(self, kind: Kind, seed: int) -> Floats:
        """Returns the state of a new individual: weights drawn from `seed`, empty optimiser slots."""
        layout = self.layouts[kind]
        state = np.zeros(layout.size, np.float32)
        weights = self.new_weights(kind, seed)
        for view, array in zip(layout.views(state).values(), weights, strict=False):
            view[...] = array
        return state

    def load(self, individual: Individual) -> None:
        """Sets the network of the individual's kind: state, learning rate and loss."""
        self._set[individual.kind](tf.constant(individual.state))
        optimizer = self._networks[individual.kind].optimizer
        optimizer.learning_rate.value.assign(individual.rate)
        self._loss[individual.kind] = ADVERSARIAL_LOSSES.index(individual.loss)

    def read(self, kind: Kind) -> Floats:
        """Returns a copy of the state of the loaded individual."""
        return np.array(self._get[kind]())

    def train(
        self, draw: Draw, numbers: Sequence[int], *, generator: bool, discriminator_every: int
    ) -> None:
        """Trains the loaded individuals on batches, in order; see `Pair.train`."""
        first = 0
        count = 1
        while first < len(numbers):
            chosen = numbers[first : first + count]
            arrays = self.batches(draw, chosen)
            self._train = self._train or self._traced(arrays)
            every = discriminator_every
            discriminator = [every > 0 and number % every == 0 for number in chosen]
            self._train(
                {name: tf.constant(array) for name, array in arrays.items()},
                tf.constant([generator] * len(chosen)),
                tf.constant(discriminator),
                *(tf.constant(self._loss[kind]) for kind in KINDS),
            )
            first += len(chosen)
            one = max(1, sum(array.nbytes for array in arrays.values()) // len(chosen))
            count = max(1, _CALL_BYTES // one)

    def fakes(self, draw: Draw, generators: Sequence[Individual], samples: int) -> Fakes:
        """Returns what each generator makes of one held batch; see `Pair.fakes`."""
        batch = self._held(draw, samples)
        found = [self._make_fake(self.weights_of(each), batch) for each in generators]
        return Fakes(batch, tf.nest.map_structure(lambda *each: tf.stack(each), *found))

    def losses(
        self, fakes: Fakes, discriminators: Sequence[Individual], kinds: Sequence[Kind] = KINDS
    ) -> dict[Kind, NDArray[np.float64]]:
        """Returns losses of all generators against all discriminators; see `Pair.losses`."""
        weights = np.stack([self.weights_of(each) for each in discriminators])
        with_real = tf.constant("discriminator" in kinds)
        found = self._judge_of(fakes)(tf.constant(weights), *fakes, with_real)
        losses = found.numpy().astype(np.float64)
        of_kind: dict[Kind, NDArray[np.float64]] = {
            "generator": losses[:, :, 0].T,
            "discriminator": losses[:, :, 1],
        }
        return {kind: of_kind[kind] for kind in kinds}

    def generator_weights(self, generator: Individual) -> dict[str, NDArray[np.float32]]:
        """Returns the weights that generate, with constants, by name; see `Pair.generator_weights`."""
        self._load_weights(generator)
        network = self._networks["generator"]
        return by_name(network.inference_weights or network.model.weights)

    def generate_with(
        self, draw: Draw, weights: Mapping[str, NDArray[np.float32]], samples: int
    ) -> NDArray[np.float32]:
        """Returns samples (N, ...) of weights; see `Pair.generate_with`."""
        network = self._networks["generator"]
        variables = network.inference_weights or network.model.weights
        known = {name: array.shape for name, array in by_name(variables).items()}
        if known != {name: array.shape for name, array in weights.items()}:
            raise DataError(
                "the weights of the grid do not match the networks of this version of cloudgan"
            )
        for variable, name in zip(variables, known, strict=True):
            variable.assign(weights[name])
        found: NDArray[np.float32] = self.fake(self._held(draw, samples)).numpy()
        return found

    def _held(self, draw: Draw, samples: int) -> Batch:
        arrays = self.held_batch(draw, samples)
        return {name: tf.constant(array) for name, array in arrays.items()}

    def weights_of(self, individual: Individual) -> NDArray[np.float32]:
        """Returns the weights of an individual as one array, without a copy."""
        return individual.state[: self.layouts[individual.kind].leading_size]

    def with_weights(self, kind: Kind, compute: Callable[[Any], Any]) -> Any:
        """Returns the traced function of weights and an argument that sets the weights and computes.

        A call for each variable would take longer than most dense networks compute.
        """
        variables = self._networks[kind].weights()

        def call(weights: tf.Tensor, argument: Any) -> Any:
            _assign(variables, weights)
            return compute(argument)

        return tf.function(call, autograph=False, reduce_retracing=True)

    def _load_weights(self, individual: Individual) -> None:
        _assign(self._networks[individual.kind].weights(), tf.constant(self.weights_of(individual)))

    def _judge_of(self, fakes: Fakes) -> Any:
        """Returns the function that judges any number of individuals on batches as this one."""
        samples = len(next(iter(fakes.batch.values())))
        if samples not in self._judges:
            several = tf.nest.map_structure(
                lambda array: tf.TensorSpec((None, *array.shape[1:]), array.dtype), fakes.samples
            )
            batch = tf.nest.map_structure(tf.TensorSpec.from_tensor, fakes.batch)
            weights = tf.TensorSpec((None, self.layouts["discriminator"].leading_size))
            self._judges[samples] = tf.function(
                self._judge,
                autograph=False,
                input_signature=(weights, batch, several, tf.TensorSpec((), tf.bool)),
            )
        return self._judges[samples]

    def _judge(
        self, weights: tf.Tensor, batch: Batch, fakes: Any, with_real: tf.Tensor
    ) -> tf.Tensor:
        """Losses (D, G, 2) of each generator, and of each discriminator against it.

        Those of the discriminators lack their losses on real samples unless `with_real`.
        """

        def one(discriminator: tf.Tensor) -> tf.Tensor:
            _assign(self._networks["discriminator"].weights(), discriminator)
            real = tf.cond(with_real, lambda: self.judge_real(batch), lambda: tf.zeros(()))
            of_generators, of_discriminator = self.judge_fakes(batch, fakes)
            return tf.stack([of_generators, real + of_discriminator], 1)

        return tf.map_fn(one, weights, fn_output_signature=tf.float32, parallel_iterations=1)

    def _traced(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Returns the function that trains on any number of batches.

        Without a signature each new number would be traced, which takes about a second.
        """
        flags, number = tf.TensorSpec((None,), tf.bool), tf.TensorSpec((), tf.int32)
        batches = {
            name: tf.TensorSpec((None, *array.shape[1:]), array.dtype)
            for name, array in arrays.items()
        }
        return tf.function(
            self._train_batches,
            autograph=False,
            input_signature=(batches, flags, flags, number, number),
        )

    def _train_batches(
        self,
        batches: Mapping[str, tf.Tensor],
        generator: tf.Tensor,
        discriminator: tf.Tensor,
        generator_loss: tf.Tensor,
        discriminator_loss: tf.Tensor,
    ) -> tf.Tensor:
        def one(number: tf.Tensor) -> tuple[tf.Tensor]:
            batch = {name: array[number] for name, array in batches.items()}
            nothing = tf.zeros((), tf.int32)
            tf.cond(
                generator[number],
                lambda: _done(self.update_generator(batch, generator_loss)),
                lambda: nothing,
            )
            tf.cond(
                discriminator[number],
                lambda: _done(self.update_discriminator(batch, discriminator_loss)),
                lambda: nothing,
            )
            return (number + 1,)

        return tf.while_loop(
            lambda number: number < tf.shape(generator)[0],
            one,
            (tf.zeros((), tf.int32),),
            parallel_iterations=1,
        )[0]


def adversarial_loss(
    loss: tf.Tensor, label: Any, probability: tf.Tensor, *, of_generator: bool
) -> tf.Tensor:
    """Returns the loss of outputs of a discriminator, in the shape of `probability`.

    The losses are those of Mustangs (Toutouh, Hemberg and O'Reilly 2019, doi:10.1145/3321707.3321860):
    binary cross-entropy; least squares; and the heuristic ``-log(p) / 2`` of a generator, for which
    a discriminator keeps the cross-entropy.

    `loss` is its number in `ADVERSARIAL_LOSSES`; `label` 1 for real and 0 for fake, a tensor if some are
    flipped.
    """
    cross_entropy = binary_crossentropy(label, probability)
    heuristic = cross_entropy / 2 if of_generator else cross_entropy
    return tf.stack([cross_entropy, (probability - label) ** 2, heuristic])[loss]


def by_name(weights: Sequence[keras.Variable]) -> dict[str, NDArray[np.float32]]:
    """Returns weights by names that sort in their order."""
    return {
        f"{number:03d}/{weight.name}": np.asarray(weight.value, np.float32)
        for number, weight in enumerate(weights)
    }


def _layout(network: Network, kind: Kind) -> FlatLayout:
    variables = network.variables()
    return FlatLayout(
        tuple(f"{kind}/{number:03d}/{v.name}" for number, v in enumerate(variables)),
        tuple(tuple(v.shape) for v in variables),
        len(network.weights()),
    )


def _assign(variables: Sequence[keras.Variable], state: tf.Tensor) -> None:
    """Sets variables to the arrays of a flat buffer."""
    sizes = [int(np.prod(variable.shape)) for variable in variables]
    for variable, part in zip(variables, tf.split(state, sizes), strict=True):
        target = variable.value
        target.assign(tf.cast(tf.reshape(part, target.shape), target.dtype))


def _getter(variables: Sequence[keras.Variable]) -> Any:
    """Returns the function that returns variables as one flat buffer."""
    return tf.function(
        lambda: tf.concat([tf.cast(tf.reshape(v.value, (-1,)), tf.float32) for v in variables], 0),
        autograph=False,
    )


def _done(result: None) -> tf.Tensor:
    del result
    return tf.zeros((), tf.int32)
