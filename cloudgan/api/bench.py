"""The commands of `cloudgan bench`: each measures something of this machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from cloudgan.bench.harness import Measurement, run
from cloudgan.core.command import command
from cloudgan.core.progress import Progress
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.schema.options import bench as options


def _bench(name: str, model: type[options.BenchOptions]) -> Callable[..., Any]:
    """Returns the command of `cloudgan.bench.NAME`, which is imported when it measures: help needs no extra."""

    def measure(options: Any, *, progress: Progress | None = None) -> Measurement | None:
        module = importlib.import_module(f"cloudgan.bench.{name}")
        return run(module.measure, options, progress or usual_progress())

    measure.__name__, measure.__annotations__["options"] = name, model
    return command(measure)


step = _bench("step", options.BenchStepOptions)
input_ = _bench("input", options.BenchInputOptions)
generate = _bench("generate", options.BenchGenerateOptions)
bandwidth = _bench("bandwidth", options.BenchBandwidthOptions)
cells = _bench("cells", options.BenchCellsOptions)
parallel = _bench("parallel", options.BenchParallelOptions)
scaling = _bench("scaling", options.BenchScalingOptions)
