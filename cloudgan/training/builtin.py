"""The built-in loop: Keras drives (`fit`), the session works.

Keras 3.15's own training function cannot run under MultiWorkerMirroredStrategy (it reduces scalars
over axis 0, keras-team/keras#20585) nor take several batches a step, so the model brings its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.training.session import Session


class BuiltinGan(keras.Model):
    """Lets `fit` run the very steps that the custom loop runs."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.built = True  # both networks are; without this `fit` looks for a `call`

    def make_train_function(self, force: bool = False) -> None:
        """Hands `fit` a function that runs one block of steps."""
        del force
        self.train_function = self._train_block

    def _train_block(self, iterator: Any) -> dict[str, float]:
        # Epochs differ by one step where the last batch is carried over; Keras' are all alike, so
        # a block past the end of an epoch is empty.
        self._session.advance(iterator)
        return {name: row["total"] for name, row in self._session.losses().items()}

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Nothing to build: Keras' own would reduce a PerReplica batch and fail (3.15)."""


class _Epochs(keras.callbacks.Callback):
    def __init__(self, session: Session, finish_epoch: Callable[[Session], None]) -> None:
        super().__init__()
        self._session, self._finish_epoch = session, finish_epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._session.begin_epoch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._finish_epoch(self._session)


def run_fit(
    session: Session, dataset: Any, *, epochs: int, finish_epoch: Callable[[Session], None]
) -> None:
    """Trains to the end of epoch number `epochs` with Keras' `fit`; call it inside the scope."""
    if session.epoch >= epochs:
        return
    gan = BuiltinGan(session)
    gan.compile(jit_compile=False)  # "auto" means XLA, 16 times slower on CPU (conv3d)
    gan.fit(
        dataset,
        epochs=epochs,
        initial_epoch=session.epoch,
        steps_per_epoch=session.blocks_per_epoch,
        shuffle=False,  # the dataset has its own order
        callbacks=[_Epochs(session, finish_epoch)],
        verbose=0,
    )
