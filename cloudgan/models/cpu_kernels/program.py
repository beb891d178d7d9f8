"""Programs of one layer: forward, gradient of the input, gradient of the kernel.

Each runs over one shower; the arguments in `SHARED` are the same for all showers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cloudgan.models.cpu_kernels.emitter import Emitter
from cloudgan.models.cpu_kernels.fusion import (
    ReadGradient,
    ReadInput,
    WriteActivated,
    WriteInputGradient,
)
from cloudgan.models.cpu_kernels.geometry import LINE
from cloudgan.models.cpu_kernels.passes import (
    clear_margin,
    correlate,
    depth_to_spectrum,
    multiply,
    spectrum_to_depth,
    spectrum_to_y,
    y_to_spectrum,
)

if TYPE_CHECKING:
    from cloudgan.models.cpu_kernels.fusion import Fusion
    from cloudgan.models.cpu_kernels.geometry import Geometry
    from cloudgan.models.cpu_kernels.passes import LineReader, LineWriter

SHARED = frozenset({"scale", "shift", "kernel", "bias", "of_sums", "of_squares", "of_kernel"})
UNIFORM = "uniform"


@dataclass(frozen=True)
class Program:
    """Generated code with the names of its arguments.

    Attributes:
        name: Name of the function.
        module: Module with the function.
        arguments: Pointers in order, without the scratch.
        scratch: Size in float32 of each scratch pointer that follows.
    """

    name: str
    module: ir.Module
    arguments: tuple[str, ...]
    scratch: tuple[int, ...]


def forward(sizes: Geometry, fusion: Fusion) -> Program:
    """result, sums, squares = activation(convolution(read(image)) + bias)."""
    arguments = (*_inputs(fusion), "kernel", "bias", "result", "sums", "squares")
    return _convolving(sizes, "forward", arguments, fusion)


def input_gradient(sizes: Geometry, fusion: Fusion) -> Program:
    """result, of_shift, of_scale from the gradient of the output.

    `sizes` is the adjoint of the layer: its input is the gradient, its filters are the image's channels.
    """
    arguments: tuple[str, ...] = ("gradient", "active", "of_sums", "of_squares", "kernel", "result")
    if fusion.affine:
        arguments += ("image", "scale", "of_shift", "of_scale")
    if fusion.keep_least is not None:
        arguments += (UNIFORM,)
    return _convolving(sizes, "input_gradient", arguments, fusion)


def kernel_gradient(sizes: Geometry, fusion: Fusion) -> Program:
    """Adds to of_kernel, the gradient of the kernel's spectrum, and writes bias_sums."""
    arguments = (*_inputs(fusion), "gradient", "active", "of_sums", "of_squares")
    arguments += ("of_kernel", "bias_sums")
    room = _scratch(sizes)
    names = (*arguments, *room, "gradient_depth_spectrum", "gradient_spectrum")
    module = ir.Module("kernel_gradient")
    emit = Emitter(module, "kernel_gradient", names, uniform=(UNIFORM,))
    at = emit.pointers
    clear_margin(emit, at["spectrum"], sizes)
    _to_depth_spectrum(emit, at, ReadInput(at, fusion), sizes)
    depth_to_spectrum(
        emit,
        ReadGradient(at, fusion, bias_sums=True),
        at["gradient_depth_spectrum"],
        size=sizes.output,
        channels=sizes.filters,
        period=sizes.period[1],
    )
    with emit.loop(sizes.frequencies) as f:
        _image_to_y_spectrum(emit, at, f, sizes)
        _gradient_to_y_spectrum(emit, at, f, sizes)
        with emit.loop(sizes.period[0]) as fy:
            result = emit.at(at["of_kernel"], *_of_kernel(sizes, f, fy))
            image = emit.at(at["spectrum"], (fy, _plane(sizes)))
            gradient = emit.at(at["gradient_spectrum"], (fy, _row(sizes)))
            correlate(emit, sizes, spectrum=image, gradient=gradient, result=result)
    emit.end()
    (depth, row), period = _gradient_scratch(sizes), sizes.period[0]
    return Program("kernel_gradient", module, arguments, (*room.values(), depth, row * period))


def kernel_floats(sizes: Geometry) -> int:
    """Size of a kernel spectrum in float32: [depth][y][tap along x][channel][block] complex vectors."""
    return sizes.frequencies * sizes.period[0] * _per_frequency(sizes)


def _inputs(fusion: Fusion) -> tuple[str, ...]:
    affine = ("scale", "shift") if fusion.affine else ()
    return ("image", *affine, *((UNIFORM,) if fusion.keep_least is not None else ()))


def _convolving(sizes: Geometry, name: str, arguments: tuple[str, ...], fusion: Fusion) -> Program:
    depth, row = _gradient_scratch(sizes)
    room = _scratch(sizes) | {"product": row * sizes.period[0], "result_spectrum": depth}
    module = ir.Module(name)
    emit = Emitter(module, name, (*arguments, *room), uniform=(UNIFORM,))
    at = emit.pointers
    forwards = name == "forward"
    reads: LineReader = (
        ReadInput(at, fusion) if forwards else ReadGradient(at, fusion, bias_sums=False)
    )
    writes: LineWriter = WriteActivated(at, fusion) if forwards else WriteInputGradient(at, fusion)
    clear_margin(emit, at["spectrum"], sizes)
    _to_depth_spectrum(emit, at, reads, sizes)
    with emit.loop(sizes.frequencies) as f:
        _image_to_y_spectrum(emit, at, f, sizes)
        with emit.loop(sizes.period[0]) as fy:
            kernel = emit.at(at["kernel"], *_of_kernel(sizes, f, fy))
            image = emit.at(at["spectrum"], (fy, _plane(sizes)))
            product = emit.at(at["product"], (fy, row))
            multiply(emit, sizes, spectrum=image, kernel=kernel, result=product)
        _product_to_y(emit, at, f, sizes)
    spectrum_to_depth(
        emit,
        at["result_spectrum"],
        writes,
        size=sizes.output,
        channels=sizes.filters,
        period=sizes.period[1],
    )
    emit.end()
    return Program(name, module, arguments, tuple(room.values()))


def _to_depth_spectrum(
    emit: Emitter, at: dict[str, Any], reads: LineReader, sizes: Geometry
) -> None:
    depth_to_spectrum(
        emit,
        reads,
        at["depth_spectrum"],
        size=sizes.size,
        channels=sizes.channels,
        period=sizes.period[1],
    )


def _image_to_y_spectrum(emit: Emitter, at: dict[str, Any], f: Any, sizes: Geometry) -> None:
    x, y, _ = sizes.size
    blocks = sizes.channel_blocks
    source = emit.at(at["depth_spectrum"], (f, x * blocks * y * LINE))
    target = emit.at(at["spectrum"], sizes.before[0] * blocks * LINE)
    y_to_spectrum(
        emit, source, target, rows=x * blocks, y=y, period=sizes.period[0], stride=_plane(sizes)
    )


def _gradient_to_y_spectrum(emit: Emitter, at: dict[str, Any], f: Any, sizes: Geometry) -> None:
    x, y, _ = sizes.output
    rows, period = x * sizes.filter_blocks, sizes.period[0]
    source = emit.at(at["gradient_depth_spectrum"], (f, rows * y * LINE))
    target = at["gradient_spectrum"]
    y_to_spectrum(emit, source, target, rows=rows, y=y, period=period, stride=_row(sizes))


def _product_to_y(emit: Emitter, at: dict[str, Any], f: Any, sizes: Geometry) -> None:
    x, y, _ = sizes.output
    rows, period = x * sizes.filter_blocks, sizes.period[0]
    target = emit.at(at["result_spectrum"], (f, rows * y * LINE))
    spectrum_to_y(emit, at["product"], target, rows=rows, y=y, period=period, stride=_row(sizes))


def _scratch(sizes: Geometry) -> dict[str, int]:
    x, y, _ = sizes.size
    return {
        "depth_spectrum": sizes.frequencies * x * sizes.channel_blocks * y * LINE,
        "spectrum": sizes.period[0] * _plane(sizes),
    }


def _gradient_scratch(sizes: Geometry) -> tuple[int, int]:
    """Sizes in float32 of all spectra along depth of the output, and of one frequency along y."""
    x, y, _ = sizes.output
    return sizes.frequencies * x * sizes.filter_blocks * y * LINE, _row(sizes)


def _of_kernel(sizes: Geometry, f: Any, fy: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
    per_frequency = _per_frequency(sizes)
    return (f, per_frequency * sizes.period[0]), (fy, per_frequency)


def _per_frequency(sizes: Geometry) -> int:
    return sizes.kernel[0] * sizes.channels * sizes.filter_blocks * LINE


def _plane(sizes: Geometry) -> int:
    return sizes.planes * sizes.channel_blocks * LINE


def _row(sizes: Geometry) -> int:
    return sizes.output[0] * sizes.filter_blocks * LINE
