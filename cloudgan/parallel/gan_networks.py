"""The networks of a training run of TensorFlow as what a worker exchanges."""

from __future__ import annotations

from typing import Any

from cloudgan.parallel.centre import exchanged_layout, generator_arrays
from cloudgan.parallel.messages import Described
from cloudgan.parallel.update_rules import Floats
from cloudgan.parallel.worker import Networks
from cloudgan.ranks.flat import as_buffer
from cloudgan.training.calibration import BatchNormRecalibrator
from cloudgan.training.context import TrainingContext
from cloudgan.training.gan import scaled_learning_rate


class GanNetworks(Networks):
    """Generator and discriminator of a worker."""

    def __init__(
        self, context: TrainingContext, recalibrator: BatchNormRecalibrator | None
    ) -> None:
        """Connects the networks; `recalibrator` fits an averaged generator, None: not needed."""
        self._context, self._gan, self._recalibrator = context, context.gan, recalibrator
        variables = self._gan.variables()
        self.flat = exchanged_layout(variables)
        batch = context.numerics.global_batch_size
        self.learning_rate = scaled_learning_rate(context.config, batch)
        self._variables = [variables[name] for name in self.flat.names]

    def read(self, into: Floats) -> None:
        """Copies the weights into a buffer."""
        self.flat.pack((variable.numpy() for variable in self._variables), into)

    def write(self, weights: Floats) -> None:
        """Sets the weights."""
        views = self.flat.views(weights)
        with self._context.engine.scope():
            for name, variable in zip(self.flat.names, self._variables, strict=True):
                variable.assign(views[name])

    def described(self) -> Described:
        """Returns what the first worker tells its master."""
        return Described(
            flat=self.flat,
            started=self._context.start_line(),
            summary=self._context.training_set.summary,
            recalibrates=bool(self._recalibrator and self._gan.ema_generator),
        )

    def arrays(self) -> dict[str, Any]:
        """Returns all arrays of a checkpoint."""
        return {name: variable.numpy() for name, variable in self._gan.variables().items()}

    def recalibrate(self, average: Floats) -> Floats:
        """Returns an averaged generator with fitted statistics, in Keras order."""
        assert self._recalibrator  # noqa: S101  `described` said so
        generator = generator_arrays(self.flat, average)
        return as_buffer(self._recalibrator.recalibrate(generator))
