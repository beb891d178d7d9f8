"""Trains calorimeter GANs, plans and deploys runs on any cloud, prices them and validates the physics.

``import cloudgan as cg`` offers the public functions of `cloudgan.api`. Each is imported on first use,
so `import cloudgan` needs neither TensorFlow nor a cloud SDK.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # without `typing`: Ctrl-C is handled only after this module is imported
if TYPE_CHECKING:
    from typing import Any

    from cloudgan.api.check import check as check
    from cloudgan.api.compare import compare as compare
    from cloudgan.api.cost import cost as cost
    from cloudgan.api.demo import demo as demo
    from cloudgan.api.deploy import deploy as deploy
    from cloudgan.api.doctor import doctor as doctor
    from cloudgan.api.evolve import evolve as evolve
    from cloudgan.api.export import export as export
    from cloudgan.api.launch_request import LaunchRequest as LaunchRequest
    from cloudgan.api.launch_request import ProvisioningRequest as ProvisioningRequest
    from cloudgan.api.offers import offers as offers
    from cloudgan.api.plan import plan as plan
    from cloudgan.api.prices import prices as prices
    from cloudgan.api.run import Run as Run
    from cloudgan.api.run import open_run as open_run
    from cloudgan.api.run_pages import report as report
    from cloudgan.api.runs import cancel as cancel
    from cloudgan.api.runs import down as down
    from cloudgan.api.runs import logs as logs
    from cloudgan.api.runs import status as status
    from cloudgan.api.setup import setup as setup
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
    "check": "check",
    "compare": "compare",
    "convert": "showers",
    "cost": "cost",
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
    "setup": "setup",
    "simulate": "showers",
    "status": "runs",
    "train": "train",
    "validate": "validate",
}
"""Public name: module of `cloudgan.api` that defines it."""

__all__ = sorted(["__version__", *_EXPORTS])  # noqa: PLE0605

# An import of the package `cloudgan.cost` binds the name `cost` here, once. Import it now and drop the
# name, so that `cloudgan.cost` is always the public function; imports of the package find it by its path.
import_module("cloudgan.cost")
del globals()["cost"]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'cloudgan' has no attribute {name!r}")
    value = getattr(import_module(f"cloudgan.api.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
