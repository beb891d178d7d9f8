"""EC2 instance types whose NVIDIA GPUs the EKS image supports (core/machines.csv), and their quotas."""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple

from cloudgan.core import machines
from cloudgan.core.errors import PlanError
from cloudgan.core.machines import Machine
from cloudgan.schema.price_row import Market


class Quota(NamedTuple):
    """A vCPU quota of an account in a region.

    Attributes:
        code: Code in the Service Quotas API; empty: undocumented.
        name: Name in the console.
    """

    code: str
    name: str


_NAMES: Final = {
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "": "the Spot Instance Requests of P6 instances",
}


def quota(found: Machine, market: Market) -> Quota:
    """Returns the quota of an instance type in a market."""
    code = found.spot_quota if market == "spot" else found.quota
    return Quota(code, _NAMES.get(code, code))


def machine(name: str) -> Machine:
    """Returns an instance type by name."""
    machines.refuse_retired("aws", name)
    known = machines.sold("aws")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.2) or list(known)[:3]
        raise PlanError(
            f"cloudgan does not support AWS instance type {name}: it needs NVIDIA GPUs that the EKS"
            f" image supports. The nearest: {', '.join(near)}"
        )
    return known[name]
