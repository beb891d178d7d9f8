"""Trains calorimeter GANs, plans and deploys runs on any cloud, prices them and validates the physics.

``import cloudgan as cg`` offers the public functions. Each is imported on first use,
so `import cloudgan` needs neither TensorFlow nor a cloud SDK. Their types are in __init__.pyi, which
tests/api/write_stub.py makes from the options of the commands.
"""

from __future__ import annotations

from importlib import import_module

_EXPORTS = {
    "Run": "api.run",
    "cancel": "launch.operations.runs",
    "check": "launch.operations.check",
    "compare": "api.compare",
    "convert": "api.showers",
    "cost": "api.cost",
    "crossvalidate": "api.search",
    "demo": "api.demo",
    "deploy": "api.deploy",
    "doctor": "launch.operations.doctor",
    "evolve": "coevolution.evolve",
    "export": "api.export",
    "down": "launch.operations.runs",
    "generate": "api.showers",
    "logs": "launch.operations.runs",
    "offers": "launch.operations.offers",
    "open_run": "api.run",
    "plan": "api.plan",
    "prices": "money.prices",
    "report": "launch.operations.run_pages",
    "search": "api.search",
    "setup": "launch.operations.setup",
    "simulate": "api.showers",
    "status": "launch.operations.runs",
    "train": "api.train",
    "validate": "api.validate",
}
"""Public name: module of `cloudgan` that defines it."""

__all__ = sorted(["__version__", *_EXPORTS])  # noqa: PLE0605

# An import of the package binds its name here, once. Import it now and drop the name, so that
# `cloudgan.search` is always the public function; imports of the package find it by its path.
import_module("cloudgan.search")
del globals()["search"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _EXPORTS:
        value = getattr(import_module(f"cloudgan.{_EXPORTS[name]}"), name)
        if "body" in getattr(value, "__dict__", ()):
            value = import_module("cloudgan.core.command").described(value)
    else:
        raise AttributeError(f"module 'cloudgan' has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """The version of the installation: it comes from the tag, as pyproject.toml says."""
    metadata = import_module("importlib.metadata")  # 10 ms, for this name only
    try:
        return str(metadata.version("cloudgan"))
    except metadata.PackageNotFoundError:  # imported from a folder of sources
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
