"""Trains calorimeter GANs, plans and deploys runs on any cloud, prices them and validates the physics.

``import cloudgan as cg`` offers the public functions of `cloudgan.api`. Each is imported on first use,
so `import cloudgan` needs neither TensorFlow nor a cloud SDK.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # without `typing`: Ctrl-C is handled only after this module is imported
if TYPE_CHECKING:
    from typing import Any

    from cloudgan.api.compare import compare as compare
    from cloudgan.api.cost import cost as cost
    from cloudgan.api.crossvalidation import crossvalidate as crossvalidate
    from cloudgan.api.demo import demo as demo
    from cloudgan.api.deployment import deploy as deploy
    from cloudgan.api.evolve import evolve as evolve
    from cloudgan.api.export import export as export
    from cloudgan.api.launch_request import LaunchRequest as LaunchRequest
    from cloudgan.api.launch_request import ProvisioningRequest as ProvisioningRequest
    from cloudgan.api.offers import offers as offers
    from cloudgan.api.planning import plan as plan
    from cloudgan.api.run import Run as Run
    from cloudgan.api.run import open_run as open_run
    from cloudgan.api.run_pages import report as report
    from cloudgan.api.runs import cancel as cancel
    from cloudgan.api.runs import down as down
    from cloudgan.api.runs import logs as logs
    from cloudgan.api.runs import status as status
    from cloudgan.api.search import search as search
    from cloudgan.api.showers import convert as convert
    from cloudgan.api.showers import generate as generate
    from cloudgan.api.showers import simulate as simulate
    from cloudgan.api.train import train as train
    from cloudgan.api.validate import validate as validate

__version__ = "0.1.0"

_EXPORTS = {
    "LaunchRequest": "launch_request",
    "ProvisioningRequest": "launch_request",
    "Run": "run",
    "cancel": "runs",
    "compare": "compare",
    "convert": "showers",
    "cost": "cost",
    "crossvalidate": "crossvalidation",
    "demo": "demo",
    "deploy": "deployment",
    "evolve": "evolve",
    "export": "export",
    "down": "runs",
    "generate": "showers",
    "logs": "runs",
    "offers": "offers",
    "open_run": "run",
    "plan": "planning",
    "report": "run_pages",
    "search": "search",
    "simulate": "showers",
    "status": "runs",
    "train": "train",
    "validate": "validate",
}
"""Public name: module of `cloudgan.api` that defines it."""

__all__ = sorted(["__version__", *_EXPORTS])  # noqa: PLE0605

# An import of such a package binds its name here, once. Import them now and drop the names, so that
# `cloudgan.cost` is always the public function; imports of the package find it by its path.
for _package in ("cost", "search"):
    import_module(f"cloudgan.{_package}")
    del globals()[_package]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'cloudgan' has no attribute {name!r}")
    value = getattr(import_module(f"cloudgan.api.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
