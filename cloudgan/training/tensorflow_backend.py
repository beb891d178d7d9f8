"""What a step needs of TensorFlow, the devices of a process, and its place among the workers.

Gradients, sums over replicas, updates and random numbers are called in replica context; a replica is one
of `tf.distribute`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, TryAgain, install_command
from cloudgan.core.hardware import Accelerator, cpu_features, has_bfloat16, nvidia_gpus
from cloudgan.data.input_pipeline import reader_error
from cloudgan.gan.footprint import device_of
from cloudgan.schema.config import RunConfig
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.cluster import Cluster, refuse_missing_accelerators
from cloudgan.training.shared_work import WORDS

Result = TypeVar("Result")
_PHILOX = 1  # tf.random.Algorithm.PHILOX
_FIRST_WITH_BFLOAT16 = (8, 0)
_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_LOST = re.compile("Collective ops is aborted|coordination service|heartbeat", re.IGNORECASE)
"""Messages of TensorFlow's errors after the loss of another worker; `_GONE` are their classes."""


def replicas() -> int:
    """Returns the number of replicas of all processes."""
    return int(tf.distribute.get_replica_context().num_replicas_in_sync)


def sum_over_replicas(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sums tensors of one type over the replicas in one collective; `values` for one replica."""
    if replicas() == 1 or not values:
        return list(values)
    bucket = tf.concat([tf.reshape(value, (-1,)) for value in values], 0)
    context = tf.distribute.get_replica_context()
    shared = context.all_reduce(tf.distribute.ReduceOp.SUM, bucket)
    parts = tf.split(shared, [int(np.prod(value.shape)) for value in values])
    return [tf.reshape(part, v.shape) for part, v in zip(parts, values, strict=True)]


def gradients(
    networks: Sequence[keras.Model], losses: Callable[[], tuple[Result, tf.Tensor]]
) -> tuple[Result, list[tf.Tensor]]:
    """Returns the result of `losses`, and the gradients of its loss by the first network's weights."""
    with tf.GradientTape() as tape:
        result, loss = losses()
    weights = networks[0].trainable_variables
    return result, tape.gradient(loss, [weight.value for weight in weights])


def apply_gradients(
    optimizer: keras.Optimizer, weights: Sequence[keras.Variable], gradients: Sequence[tf.Tensor]
) -> None:
    """Updates weights by gradients that are the same on all replicas, as `optimizer.apply` up to rounding.

    The state stays in the Keras optimiser, and in its checkpoints. Its own `apply` takes forty
    operations per weight and replica: a third of the tracing time of a step, and of its operations.

    The optimiser is Adam or RMSprop as published: no clipping, decay, centring or averaging.
    """
    adam = isinstance(optimizer, keras.optimizers.Adam)
    change = _adam(optimizer) if adam else _rmsprop(optimizer)
    for number, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        change(number, _own(weight), gradient)
    count = optimizer.iterations
    one = tf.ones((), count.value.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=_own(count), value=one)


def read(variable: keras.Variable) -> tf.Tensor:
    """Returns the value of this replica's copy now; Keras 3.15's `convert_to_tensor` would read it later."""
    return tf.convert_to_tensor(variable)


def put(variable: keras.Variable, value: tf.Tensor) -> None:
    """Sets this replica's copy of a variable; all replicas set the same."""
    tf.raw_ops.AssignVariableOp(resource=_own(variable), value=value)


def _own(variable: keras.Variable) -> tf.Tensor:
    return variable.value.handle


def slots(optimizer: keras.Optimizer, name: str) -> list[keras.Variable]:
    """Returns the slots `name` (momentum, velocity) of an optimiser, in the order of its weights."""
    return [each for each in optimizer.variables if each.name.endswith(f"_{name}")]


def _adam(optimizer: keras.optimizers.Adam) -> Callable[[int, Any, tf.Tensor], None]:
    """Kingma and Ba 2015 (arXiv:1412.6980), in the order of their section 2's last sentence."""
    moments, velocities = slots(optimizer, "momentum"), slots(optimizer, "velocity")
    dtype = moments[0].value.dtype
    done = tf.cast(tf.convert_to_tensor(optimizer.iterations.value) + 1, dtype)
    betas = [tf.constant(beta, dtype) for beta in (optimizer.beta_1, optimizer.beta_2)]
    powers = [beta**done for beta in betas]
    rate = tf.cast(tf.convert_to_tensor(optimizer.learning_rate), dtype)
    epsilon = tf.constant(optimizer.epsilon, dtype)

    def change(number: int, weight: Any, gradient: tf.Tensor) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=weight,
            m=_own(moments[number]),
            v=_own(velocities[number]),
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=betas[0],
            beta2=betas[1],
            epsilon=epsilon,
            grad=gradient,
        )

    return change


def _rmsprop(optimizer: keras.optimizers.RMSprop) -> Callable[[int, Any, tf.Tensor], None]:
    """RMSprop without momentum; TensorFlow's own kernel would allocate a momentum slot."""
    velocities = slots(optimizer, "velocity")
    dtype = velocities[0].value.dtype
    rate = tf.cast(tf.convert_to_tensor(optimizer.learning_rate), dtype)
    rho, rest = (tf.constant(share, dtype) for share in (optimizer.rho, 1 - optimizer.rho))
    epsilon = tf.constant(optimizer.epsilon, dtype)

    def change(number: int, weight: Any, gradient: tf.Tensor) -> None:
        slot = _own(velocities[number])
        before = tf.raw_ops.ReadVariableOp(resource=slot, dtype=dtype)
        velocity = rho * before + rest * tf.square(gradient)
        tf.raw_ops.AssignVariableOp(resource=slot, value=velocity)
        moved = rate * gradient / tf.sqrt(velocity + epsilon)
        tf.raw_ops.AssignSubVariableOp(resource=weight, value=moved)

    return change


def words(seed: int, stream: int, place: tuple[Any, Any], rows: int, per_row: int) -> tf.Tensor:
    """Returns random words, uint32 (rows, `per_row` rounded up to whole blocks).

    The key of Philox is (seed, stream); `place` is the step, and the number of the first row.
    """
    given = _philox(seed, stream, place, rows, per_row)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(**given, dtype=tf.uint32)


def halves(words: tf.Tensor) -> tf.Tensor:
    """Returns both halves of each word, lower one first: uint16 (rows, 2 * words)."""
    return tf.reshape(tf.bitcast(words, tf.uint16), (words.shape[0], -1))


def normals(seed: int, stream: int, place: tuple[Any, Any], rows: int, per_row: int) -> tf.Tensor:
    """Returns standard normals, float32 (rows, per_row), of the words of the same arguments."""
    given = _philox(seed, stream, place, rows, per_row)
    return tf.raw_ops.StatelessRandomNormalV2(**given, dtype=tf.float32)[:, :per_row]


def _philox(
    seed: int, stream: int, place: tuple[Any, Any], rows: int, per_row: int
) -> dict[str, Any]:
    """Arguments of a stateless generator: it fills rows of whole blocks, four words each, in order."""
    step, first_row = (
        tf.cast(tf.constant(value, tf.int64) if isinstance(value, int) else value, tf.uint64)
        for value in place
    )
    padded = -(-per_row // 4) * 4
    return {
        "shape": [rows, padded],
        "key": tf.constant([(seed << 32) + stream], tf.uint64),
        "counter": tf.stack([first_row * (padded // 4), step]),
        "alg": _PHILOX,
    }


def on_device(name: str | None) -> Any:
    """Computes on a device inside; None: TensorFlow's choice."""
    return tf.device(name)


def compiled(
    call: Callable[..., tf.Tensor], variables: Sequence[keras.Variable]
) -> Callable[..., NDArray[Any]]:
    """Returns `call`, which reads `variables`, as a traced function that returns a new NumPy array."""
    del variables
    traced = tf.function(call, autograph=False)
    return lambda *arguments: traced(*arguments).numpy()


def resolve_precision(precision: str) -> str:
    """Returns float32, bfloat16, float16 or float64 for `precision` on this machine.

    `mixed` is bfloat16 if the device supports it, else float16 on GPUs and float32 on CPUs.
    """
    if precision != "mixed":
        return precision
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not settings.has_tpu():
        return "bfloat16" if has_bfloat16(cpu_features()) else "float32"
    found = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    capabilities = [details.get("compute_capability") for details in found]
    is_old = any(known and tuple(known) < _FIRST_WITH_BFLOAT16 for known in capabilities)
    return "float16" if is_old else "bfloat16"


def choose_strategy(training: TrainingConfig, cluster: Cluster | None) -> str:
    """Returns the configured strategy; `auto` resolves to one that uses all devices."""
    if training.strategy != "auto":
        return training.strategy
    if cluster and len(cluster.workers) > 1:
        return "multiworker"
    if settings.has_tpu():
        return "tpu"
    devices = len(tf.config.list_physical_devices("GPU")) or 1
    return "mirrored" if (training.replicas or devices) > 1 else "one"


def set_up_devices(training: TrainingConfig, *, threads: int, stages: Sequence[str] = ()) -> None:
    """Sets threads and logical devices; TensorFlow takes them only before its first operation.

    Args:
        training: Configured replicas.
        threads: Of all replicas. Operations of one replica do not wait for threads that another one uses:
            each operation has its replica's share, and as many operations as threads run at a time.
        stages: Layers from which on a network is on the next device; without GPUs, on the next
            logical device of the processor.
    """
    gpus = tf.config.list_physical_devices("GPU")
    asked = training.replicas
    if asked and gpus and asked > len(gpus):
        raise ConfigError(
            f"--replicas={asked}, but {len(gpus)} GPUs found; use --replicas={len(gpus)} or less"
        )
    if stages and gpus and len(stages) >= len(gpus):
        raise ConfigError(
            f"--stages={','.join(stages)} needs {len(stages) + 1} GPUs, and {len(gpus)} found; give"
            " fewer stages, or omit them"
        )
    parts = max(asked or 1, len(stages) + 1)
    each = threads if gpus else max(1, threads // (asked or 1))
    try:
        tf.config.threading.set_intra_op_parallelism_threads(each)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, enable=True)
        if parts > 1 and not gpus:
            (cpu,) = tf.config.list_physical_devices("CPU")
            device = tf.config.LogicalDeviceConfiguration()
            tf.config.set_logical_device_configuration(cpu, [device] * parts)
    except RuntimeError as error:
        raise ConfigError(
            f"TensorFlow already runs in this process with other threads or devices ({error}); restart"
            " the process (in a notebook: the kernel) and call cloudgan before TensorFlow"
        ) from error


def stage_devices(stages: Sequence[str]) -> list[str]:
    """Returns the devices of a network that is divided at `stages`."""
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    return [f"{kind}:{number}" for number in range(len(stages) + 1)]


def place_networks(networks: Sequence[keras.Model | None], stages: Sequence[str]) -> None:
    """Moves the layers of networks from each stage on to the next device: model parallelism; see `place_layers`.

    A placed layer has its variables on its device, and its operations of both passes: only activations and their gradients
    cross between devices. `keras.distribution` has no effect with TensorFlow (Keras 3.15: all variables stay on the first
    device), so the layers are placed by `tf.device`.
    """
    devices = stage_devices(stages)
    for network in networks:
        if network:
            place_layers(network, stages, devices)


def place_layers(network: keras.Model, stages: Sequence[str], devices: Sequence[str]) -> None:
    """Moves the layers of a functional network, from each stage on, to the next device, such as GPU:1.

    A layer after others is on the last of their devices. Call it before optimizers are built and
    functions are traced. Stages are names of layers, in the order of the network.
    """
    number: dict[int, int] = {}
    for operation in network.operations:
        parents = (
            number[id(tensor._keras_history.operation)]
            for node in operation._inbound_nodes
            for tensor in node.input_tensors
        )
        own = device_of(_block(operation.name), stages)
        number[id(operation)] = found = max(own, *parents, 0)
        if found:
            _move(operation, devices[found])


def place_slots(optimizer: Any, weights: Sequence[keras.Variable]) -> None:
    """Moves the slots of an optimizer, built with placed `weights`, to the devices of these."""
    for name in ("momentum", "velocity"):
        for slot, weight in zip(slots(optimizer, name), weights, strict=False):
            _move_variable(slot, weight.value.device)


def _block(name: str) -> int:
    """Number of a convolution; -1 for any other layer."""
    text = name.removeprefix("conv")
    return int(text) if text != name and text.isdecimal() else -1


def _move(operation: Any, device: str) -> None:
    """Moves variables and operations of a layer, which may be one of Keras' functions without any."""
    for variable in getattr(operation, "variables", ()):
        _move_variable(variable, device)
    operation.call = _on_device(operation.call, device)


def _move_variable(variable: keras.Variable, device: str) -> None:
    """Replaces the variable's storage, before anything was traced with it."""
    with tf.device(device):
        variable._value = tf.Variable(
            variable.value, trainable=variable.trainable, name=variable.name
        )


def _on_device(call: Callable[..., Any], device: str) -> Callable[..., Any]:
    """Returns `call` with both passes on a device.

    A tape runs the backward operations wherever it is asked for gradients, so the layer has its own
    tape, and asks it on its device.
    """

    def placed(*args: Any, **options: Any) -> Any:
        tensors = tf.nest.flatten(args)

        @tf.custom_gradient
        def both_passes(*values: tf.Tensor) -> Any:
            with tf.device(device), tf.GradientTape() as tape:
                tape.watch(values)
                result = call(*tf.nest.pack_sequence_as(args, list(values)), **options)

            def backward(slope: tf.Tensor, variables: Sequence[tf.Variable] | None = None) -> Any:
                with tf.device(device):
                    sources = (list(values), list(variables or ()))
                    found, of_variables = tape.gradient(result, sources, slope)
                return (found, of_variables) if variables else found

            return result, backward

        return both_passes(*tensors)

    return placed


def make_strategy(config: RunConfig, name: str) -> tf.distribute.Strategy:
    """Creates the strategy called `name`."""
    if name == "tpu":
        return _tpu()
    gpus = tf.config.list_physical_devices("GPU")
    refuse_missing_accelerators(len(gpus))
    kind = "GPU" if gpus else "CPU"
    count = config.training.replicas or (
        len(tf.config.list_logical_devices("GPU")) if kind == "GPU" else 1
    )
    devices = [f"{kind}:{number}" for number in range(count)]
    if name == "one" and config.parallel.stages:
        # OneDeviceStrategy would put the variables of all stages on its device.
        return tf.distribute.get_strategy()
    if name == "one":
        return tf.distribute.OneDeviceStrategy(f"{kind}:0")
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(devices)
    implementation = tf.distribute.experimental.CommunicationImplementation.AUTO
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise ConfigError(
            f"no TPU found on this machine ({str(error).splitlines()[0]}); run this on a TPU VM"
            f" after {install_command('tpu')}, or use --strategy=auto"
        ) from error
    refuse_missing_accelerators(len(tf.config.list_logical_devices("TPU")))
    return tf.distribute.TPUStrategy(resolver)


def lost_worker(error: tf.errors.OpError, cluster: Cluster | None) -> TryAgain | None:
    """Returns an error that names the lost worker; None if the failure has another reason."""
    if cluster is None or len(cluster.workers) == 1:
        return None
    said = str(error)
    if not isinstance(error, _GONE) and not _LOST.search(said):
        return None
    found = re.search(r"/job:(worker|chief)/replica:0/task:(\d+)", said)
    who = "another worker"
    if found:
        chiefs = len(cluster.workers) - cluster.ordinary
        index = int(found[2]) + (chiefs if found[1] == "worker" else 0)
        if index != cluster.index and index < len(cluster.workers):
            who = f"worker {index} ({cluster.workers[index]})"
    return TryAgain(
        f"{who} stopped answering, so this worker stops; restart all workers to resume from the last"
        " checkpoint"
    )


@contextmanager
def translated_errors(cluster: Cluster | None) -> Iterator[None]:
    """Translates TensorFlow's errors for damaged showers and lost workers to those for a user."""
    try:
        yield
    except tf.errors.OpError as error:
        if known := reader_error(error) or lost_worker(error, cluster):
            raise known from error
        raise


def accelerators() -> tuple[Accelerator, ...]:
    """Returns the accelerators that TensorFlow sees, by name."""
    memory = {gpu.name: gpu.memory_gib for gpu in nvidia_gpus()}
    found: dict[str, int] = {}
    for gpu in tf.config.list_physical_devices("GPU"):
        details: dict[str, Any] = tf.config.experimental.get_device_details(gpu)
        name = str(details.get("device_name", "GPU"))
        found[name] = found.get(name, 0) + 1
    tpus = tf.config.list_logical_devices("TPU")
    if tpus:
        found["TPU core"] = len(tpus)
    return tuple(
        Accelerator(name=name, count=count, memory_gib=memory.get(name))
        for name, count in found.items()
    )


def unused_gpus() -> str | None:
    """Returns a warning if TensorFlow cannot use the GPUs of this machine; None if they are hidden."""
    if settings.variable("CUDA_VISIBLE_DEVICES") or tf.config.list_physical_devices("GPU"):
        return None
    if not (there := nvidia_gpus()):
        return None
    return (
        f"this machine has {len(there)} x {there[0].name}, but TensorFlow finds no GPU and uses the"
        " CPU: install cloudgan[gpu] instead of cloudgan[train], or set CUDA_VISIBLE_DEVICES=-1 to"
        " use the CPU"
    )


def device_kind() -> str:
    """Returns the name of the computing device; CPU without an accelerator."""
    found = accelerators()
    return found[0].name if found else "CPU"


conv_device = device_kind


def word_adder(strategy: tf.distribute.Strategy, processes: int) -> Callable[[Any], Any]:
    """Returns the function that `SharedWork` adds with; call it while no collective is traced or run."""
    local_replicas = int(strategy.num_replicas_in_sync) // processes

    @tf.function(autograph=False)
    def add(words: tf.Tensor) -> Any:
        def once() -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.where(tf.equal(replica % local_replicas, 0), words, tf.zeros_like(words))

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(once), axis=None)

    traced = add.get_concrete_function(tf.TensorSpec((WORDS,), tf.int32))
    return lambda words: traced(tf.constant(words))
