"""`cloudgan` whose bfloat16 is that of TPUs and tensor cores, on a CPU without such instructions.

    python benchmarks/studies/accelerator_bfloat16.py train --precision=bfloat16 ...

Convolutions and matrix products take bfloat16, add in float32 and give bfloat16; TensorFlow on such a
CPU does the same products one by one, six to seventeen times slower. All else is TensorFlow's own
bfloat16. For what it does to the physics, not for how fast it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.main import main as cloudgan
from cloudgan.core import settings

if TYPE_CHECKING:
    from collections.abc import Callable


def added_in_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `operation` of two tensors as an accelerator does it where they are bfloat16."""
    import tensorflow as tf

    def run(one: Any, other: Any, *rest: Any, **named: Any) -> Any:
        if one.dtype != tf.bfloat16:
            return operation(one, other, *rest, **named)
        wide = operation(tf.cast(one, tf.float32), tf.cast(other, tf.float32), *rest, **named)
        return tf.cast(wide, tf.bfloat16)

    return run


def main() -> None:
    """Runs `cloudgan` with the arguments given."""
    settings.quiet_tensorflow()
    from keras.src import backend

    backend.nn.conv = added_in_float32(backend.nn.conv)
    backend.numpy.matmul = added_in_float32(backend.numpy.matmul)
    cloudgan()


if __name__ == "__main__":
    main()
