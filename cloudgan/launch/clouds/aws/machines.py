"""EC2 instance types whose NVIDIA GPUs the EKS image supports, and their quotas.

vCPU, memory and GPUs: https://aws.amazon.com/ec2/instance-types/ (accelerated computing); support
by the image AL2023_x86_64_NVIDIA:
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html (both read 2026-11-21).
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, NamedTuple

from cloudgan.core.errors import PlanError

if TYPE_CHECKING:
    from cloudgan.schema.price_row import Market


class Quota(NamedTuple):
    """A vCPU quota of an account in a region.

    Attributes:
        code: Code in the Service Quotas API; None: undocumented.
        name: Name in the console.
    """

    code: str | None
    name: str


# Codes: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-quotas.html and
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html (read 2026-11-21).
_G: Final = Quota("L-DB2E81BA", "Running On-Demand G and VT instances")
_P: Final = Quota("L-417A185B", "Running On-Demand P instances")
_G_SPOT: Final = Quota("L-3819A6DF", "All G and VT Spot Instance Requests")
_P4_SPOT: Final = Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests")
_P5_SPOT: Final = Quota("L-C4BD4855", "All P5 Spot Instance Requests")
_P6_SPOT: Final = Quota(None, "the Spot Instance Requests of P6 instances")  # sources disagree


class Machine(NamedTuple):
    """An instance type.

    Attributes:
        name: Instance type.
        gpu: GPU model in the price table.
        gpus: Number of GPUs.
        gpu_gib: Memory of one GPU.
        vcpus: Number of vCPUs, which quotas count.
        memory_gib: Main memory.
        on_demand: On-demand quota.
        spot: Spot quota.
        is_blackwell: Whether its GPUs need a newer CUDA than TensorFlow's public image has.
    """

    name: str
    gpu: str
    gpus: int
    gpu_gib: int
    vcpus: int
    memory_gib: int
    on_demand: Quota
    spot: Quota
    is_blackwell: bool = False

    def quota(self, market: Market) -> Quota:
        """Returns the quota of a market."""
        return self.spot if market == "spot" else self.on_demand


MACHINES: Final = {
    one.name: one
    for one in (
        Machine("g4dn.xlarge", "T4", 1, 16, 4, 16, _G, _G_SPOT),
        Machine("g4dn.2xlarge", "T4", 1, 16, 8, 32, _G, _G_SPOT),
        Machine("g4dn.12xlarge", "T4", 4, 16, 48, 192, _G, _G_SPOT),
        Machine("g5.xlarge", "A10G", 1, 24, 4, 16, _G, _G_SPOT),
        Machine("g5.2xlarge", "A10G", 1, 24, 8, 32, _G, _G_SPOT),
        Machine("g5.12xlarge", "A10G", 4, 24, 48, 192, _G, _G_SPOT),
        Machine("g5.48xlarge", "A10G", 8, 24, 192, 768, _G, _G_SPOT),
        Machine("g6.xlarge", "L4", 1, 24, 4, 16, _G, _G_SPOT),
        Machine("g6.2xlarge", "L4", 1, 24, 8, 32, _G, _G_SPOT),
        Machine("g6.12xlarge", "L4", 4, 24, 48, 192, _G, _G_SPOT),
        Machine("g6.48xlarge", "L4", 8, 24, 192, 768, _G, _G_SPOT),
        Machine("p3.2xlarge", "V100", 1, 16, 8, 61, _P, _P4_SPOT),
        Machine("p3.8xlarge", "V100", 4, 16, 32, 244, _P, _P4_SPOT),
        Machine("p3.16xlarge", "V100", 8, 16, 64, 488, _P, _P4_SPOT),
        Machine("p3dn.24xlarge", "V100-32GB", 8, 32, 96, 768, _P, _P4_SPOT),
        Machine("p4d.24xlarge", "A100-40GB", 8, 40, 96, 1152, _P, _P4_SPOT),
        Machine("p4de.24xlarge", "A100-80GB", 8, 80, 96, 1152, _P, _P4_SPOT),
        Machine("p5.4xlarge", "H100", 1, 80, 16, 256, _P, _P5_SPOT),
        Machine("p5.48xlarge", "H100", 8, 80, 192, 2048, _P, _P5_SPOT),
        Machine("p5en.48xlarge", "H200", 8, 141, 192, 2048, _P, _P5_SPOT),
        Machine("p6-b200.48xlarge", "B200", 8, 179, 192, 2048, _P, _P6_SPOT, is_blackwell=True),
    )
}


def machine(name: str) -> Machine:
    """Returns an instance type by name.

    Raises:
        PlanError: cloudgan does not support it; names the nearest.
    """
    found = MACHINES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, MACHINES, n=3, cutoff=0.2) or list(MACHINES)[:3]
        raise PlanError(
            f"cloudgan does not support AWS instance type {name}: it needs NVIDIA GPUs that the EKS"
            f" image supports. The nearest: {', '.join(near)}"
        )
    return found
