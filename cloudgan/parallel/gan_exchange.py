"""Connects a training run of TensorFlow with the exchange of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.parallel.exchange import Networks, WorkerExchange
from cloudgan.parallel.flat_weights import FlatLayout, same_order
from cloudgan.parallel.update_rules import make_rule
from cloudgan.training.array_archive import as_archive
from cloudgan.training.gan import scaled_learning_rate
from cloudgan.training.run_recorder import start_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from cloudgan.parallel.place import Place
    from cloudgan.parallel.profile import Profile
    from cloudgan.parallel.update_rules import Floats
    from cloudgan.training.calibration import BatchNormRecalibrator
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.gan import Gan


def gan_exchange(
    place: Place,
    context: TrainingContext,
    gan: Gan,
    recalibrator: BatchNormRecalibrator | None,
    *,
    rule_state: Mapping[str, Floats],
    profile: Profile,
) -> WorkerExchange:
    """Returns the exchange of one rank's training run.

    Args:
        place: Of this rank.
        context: Of the worker's training.
        gan: Networks whose weights are exchanged.
        recalibrator: Fits the statistics of an averaged generator; None: not needed.
        rule_state: Arrays of the update rule in the worker's checkpoint; empty for a new run.
        profile: Of this rank.

    Raises:
        ConfigError: The weights are not float32.
    """
    connected = _Connected(context, gan, recalibrator)
    parallel, saved = context.config.parallel, context.saved
    rule = make_rule(
        parallel,
        workers=len(place.layout.children(place.master)),
        trainable=connected.flat.trainable_size,
        learning_rate=scaled_learning_rate(context.config, context.numerics.global_batch_size),
    )
    if saved:
        rule.restore(dict(rule_state))
    networks = Networks(
        connected.flat.size,
        connected.read,
        connected.write,
        connected.recalibrate if connected.recalibrates else None,
        connected.joining,
        connected.arrays,
    )
    return WorkerExchange(
        place,
        networks,
        rule,
        profile,
        every=parallel.sync_every,
        is_new=saved is None,
        trained_before=saved.state.train_seconds if saved else 0.0,
    )


class _Connected:
    def __init__(
        self, context: TrainingContext, gan: Gan, recalibrator: BatchNormRecalibrator | None
    ) -> None:
        self._context, self._gan, self._recalibrator = context, gan, recalibrator
        variables = gan.variables()
        self.flat = FlatLayout.of(variables)
        self._variables = [variables[name] for name in self.flat.names]

    @property
    def recalibrates(self) -> bool:
        """Whether an averaged generator needs fitted statistics."""
        return bool(self._recalibrator and self._gan.ema_generator)

    def read(self, into: Floats) -> None:
        self.flat.pack((variable.numpy() for variable in self._variables), into)

    def write(self, weights: Floats) -> None:
        views = self.flat.views(weights)
        with self._context.engine.scope():
            for name, variable in zip(self.flat.names, self._variables, strict=True):
                variable.assign(views[name])

    def recalibrate(self, average: Floats) -> Floats:
        assert self._recalibrator  # noqa: S101  asked only if `recalibrates`
        return same_order(self._recalibrator.recalibrate(self.flat.generator(average)))

    def joining(self) -> dict[str, Any]:
        started = start_line(self._context, self._context.first_step, 0.0)
        return {
            "flat": self.flat.as_json(),
            "started": started.model_dump_json(),
            "summary": self._context.training_set.summary.model_dump_json(),
            "recalibrates": self.recalibrates,
        }

    def arrays(self) -> NDArray[np.uint8]:
        arrays = {name: v.numpy() for name, v in self._gan.variables().items()}
        return np.frombuffer(as_archive(arrays), np.uint8)
