"""Trains calorimeter GANs, plans and deploys runs on any cloud, prices them and validates the physics.

``import cloudgan as cg`` offers the public functions of `cloudgan.api`. Each is imported on first use,
so `import cloudgan` needs neither TensorFlow nor a cloud SDK. Their types are in __init__.pyi, which
tests/api/write_stub.py makes from the options of the commands.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_EXPORTS = {
    "Run": "run",
    "cancel": "runs",
    "check": "check",
    "compare": "compare",
    "convert": "showers",
    "cost": "cost",
    "crossvalidate": "crossvalidation",
    "demo": "demo",
    "deploy": "deploy",
    "doctor": "doctor",
    "evolve": "evolve",
    "export": "export",
    "down": "runs",
    "generate": "showers",
    "logs": "runs",
    "offers": "offers",
    "open_run": "run",
    "plan": "plan",
    "prices": "prices",
    "report": "run_pages",
    "search": "search",
    "setup": "setup",
    "simulate": "showers",
    "status": "runs",
    "train": "train",
    "validate": "validate",
}
"""Public name: module of `cloudgan.api` that defines it."""

__all__ = sorted(["__version__", *_EXPORTS])  # noqa: PLE0605

# An import of the package binds its name here, once. Import it now and drop the name, so that
# `cloudgan.search` is always the public function; imports of the package find it by its path.
import_module("cloudgan.search")
del globals()["search"]


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'cloudgan' has no attribute {name!r}")
    value = getattr(import_module(f"cloudgan.api.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
