"""The networks of one process, into which the individuals of all its cells are loaded.

Tracing costs seconds and swapping the variables of a network milliseconds, so a process traces each
function once, however many cells it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.coevolution.individual import StateLayout
from cloudgan.coevolution.task import KINDS, Draw, Kind
from cloudgan.core.errors import DataError
from cloudgan.models.losses import binary_crossentropy
from cloudgan.schema.coevolution import ADVERSARIAL_LOSSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras
    from numpy.typing import NDArray

    from cloudgan.coevolution.individual import Individual
    from cloudgan.coevolution.task import Floats

Batch = dict[str, tf.Tensor]

_CALL_BYTES = 2**25
"""Batches that one call of the device receives, 32 MB: memory stays bounded, a call costs 0.2 ms."""


@dataclass(frozen=True)
class Network:
    """A network with its optimiser.

    Attributes:
        model: Of either kind.
        optimizer: Built, with a learning rate that is a variable.
        inference_weights: Weights of the averaged model that generates; empty without one.
        constants: Weights that are measured on the data, the same in all individuals of a run, such as
            tables; they are no part of an individual's state.
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
        self._layouts = {kind: _layout(self._networks[kind], kind) for kind in KINDS}
        self._loss = dict.fromkeys(KINDS, 0)
        self._train: Any = None
        self._fake = tf.function(self.fake, autograph=False)
        self._judge = tf.function(self.judge, autograph=False)

    @abstractmethod
    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns training batches, each array (batches, batch size, ...)."""

    @abstractmethod
    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns a batch of held-out data with all that `fake` and `judge` read, (samples, ...)."""

    @abstractmethod
    def update_generator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the generator; `loss` is the number of its adversarial loss."""

    @abstractmethod
    def update_discriminator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the discriminator; `loss` is the number of its adversarial loss."""

    @abstractmethod
    def fake(self, batch: Batch) -> Any:
        """Returns what the generator makes of a batch, in inference mode: what `judge` reads.

        `generate` expects one tensor of samples; a task with more overrides it.
        """

    @abstractmethod
    def judge(self, batch: Batch, fake: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the losses of generator and discriminator, scalars, by which all are compared."""

    @abstractmethod
    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns the first weights of a network, in the order of `Network.variables`."""

    def layout(self, kind: Kind) -> StateLayout:
        """Returns names and shapes of the arrays of an individual."""
        return self._layouts[kind]

    def initial(self, kind: Kind, seed: int) -> Floats:
        """Returns the state of a new individual: weights drawn from `seed`, empty optimiser slots."""
        layout = self._layouts[kind]
        state = np.zeros(layout.size, np.float32)
        weights = self.new_weights(kind, seed)
        for view, array in zip(layout.views(state), weights, strict=False):
            view[...] = array
        return state

    def load(self, individual: Individual) -> None:
        """Sets the network of the individual's kind: state, learning rate and loss."""
        views = self._layouts[individual.kind].views(individual.state)
        for variable, view in zip(self._variables[individual.kind], views, strict=True):
            _assign(variable, view)
        optimizer = self._networks[individual.kind].optimizer
        optimizer.learning_rate.value.assign(individual.rate)
        self._loss[individual.kind] = ADVERSARIAL_LOSSES.index(individual.loss)

    def read(self, kind: Kind) -> Floats:
        """Returns a copy of the state of the loaded individual."""
        layout = self._layouts[kind]
        state = np.empty(layout.size, np.float32)
        layout.pack((variable.value.numpy() for variable in self._variables[kind]), state)
        return state

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

    def fitness(
        self,
        draw: Draw,
        generators: Sequence[Individual],
        discriminators: Sequence[Individual],
        samples: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the losses of all generators against all discriminators; see `Pair.fitness`."""
        batch = self._held(draw, samples)
        fakes = []
        for individual in generators:
            self._load_weights(individual)
            fakes.append(self._fake(batch))
        of_generators = np.empty((len(generators), len(discriminators)))
        of_discriminators = np.empty((len(discriminators), len(generators)))
        for column, individual in enumerate(discriminators):
            self._load_weights(individual)
            for row, fake in enumerate(fakes):
                pair = self._judge(batch, fake)
                of_generators[row, column] = pair[0]
                of_discriminators[column, row] = pair[1]
        return of_generators, of_discriminators

    def generator_weights(self, generator: Individual) -> dict[str, NDArray[np.float32]]:
        """Returns the weights that generate, with constants, by name; see `Pair.generator_weights`."""
        self._load_weights(generator)
        network = self._networks["generator"]
        return by_name(network.inference_weights or network.model.weights)

    def generate(self, draw: Draw, generator: Individual, samples: int) -> NDArray[np.float32]:
        """Returns samples (N, ...) of a generator; see `Pair.generate`."""
        self._load_weights(generator)
        found: NDArray[np.float32] = self._fake(self._held(draw, samples)).numpy()
        return found

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
            _assign(variable, weights[name])
        found: NDArray[np.float32] = self._fake(self._held(draw, samples)).numpy()
        return found

    def _held(self, draw: Draw, samples: int) -> Batch:
        arrays = self.held_batch(draw, samples)
        return {name: tf.constant(array) for name, array in arrays.items()}

    def _load_weights(self, individual: Individual) -> None:
        views = self._layouts[individual.kind].weight_arrays(individual.state)
        for variable, view in zip(self._variables[individual.kind], views, strict=False):
            _assign(variable, view)

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

    Args:
        loss: Number of the loss in `ADVERSARIAL_LOSSES`, int32.
        label: What the outputs should be, 1 for real and 0 for fake; a tensor if some are flipped.
        probability: Outputs, from 0 to 1.
        of_generator: Whether the generator learns from it.
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


def _layout(network: Network, kind: Kind) -> StateLayout:
    variables = network.variables()
    return StateLayout(
        tuple(f"{kind}/{number:03d}/{v.name}" for number, v in enumerate(variables)),
        tuple(tuple(v.shape) for v in variables),
        len(network.weights()),
    )


def _assign(variable: keras.Variable, array: NDArray[np.float32]) -> None:
    target = variable.value
    value = tf.constant(array.astype(target.dtype.as_numpy_dtype, copy=False))
    # `assign` of the variable takes 0.2 ms, this one 0.07 ms, and a cell calls it 500 times per iteration.
    tf.raw_ops.AssignVariableOp(resource=target.handle, value=value)


def _done(result: None) -> tf.Tensor:
    del result
    return tf.zeros((), tf.int32)
