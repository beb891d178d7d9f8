"""EC2 instance types whose NVIDIA GPUs the EKS image supports, and their quotas.

vCPU, memory and GPUs: https://aws.amazon.com/ec2/instance-types/ (accelerated computing); support
by the image AL2023_x86_64_NVIDIA:
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html (both read 2026-11-21).
"""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple

from cloudgan.core.errors import PlanError
from cloudgan.cost.prices.discontinued import refuse_discontinued
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
        vcpus: Number of vCPUs, which quotas count.
        memory_gib: Main memory.
        on_demand: On-demand quota.
        spot: Spot quota.
        needs_own_image: Why the wheels of TensorFlow do not run on it; empty if they do.
    """

    name: str
    gpu: str
    gpus: int
    vcpus: int
    memory_gib: int
    on_demand: Quota
    spot: Quota
    needs_own_image: str = ""

    def quota(self, market: Market) -> Quota:
        """Returns the quota of a market."""
        return self.spot if market == "spot" else self.on_demand

    @property
    def has_efa(self) -> bool:
        """Whether its GPUs have a network of their own: EFA with GPUDirect RDMA, from P4d on."""
        return self.name.startswith(("p4", "p5", "p6")) and self.gpus > 1

    @property
    def image_type(self) -> str:
        """AMI type of EKS for its processor."""
        return f"AL2023_{'ARM_64' if self.needs_own_image is _GRACE else 'x86_64'}_NVIDIA"


_BLACKWELL: Final = (
    "TensorFlow's wheels do not support Blackwell GPUs; pass an --image built for them, or"
    " --accelerator=h200:8"
)
_GRACE: Final = (
    "its processors are Arm, for which TensorFlow has no wheels with GPUs; pass an --image built for"
    " Arm and Blackwell, or --accelerator=h200:8"
)

MACHINES: Final = {
    one.name: one
    for one in (
        Machine("g4dn.xlarge", "T4", 1, 4, 16, _G, _G_SPOT),
        Machine("g4dn.2xlarge", "T4", 1, 8, 32, _G, _G_SPOT),
        Machine("g4dn.12xlarge", "T4", 4, 48, 192, _G, _G_SPOT),
        Machine("g5.xlarge", "A10G", 1, 4, 16, _G, _G_SPOT),
        Machine("g5.2xlarge", "A10G", 1, 8, 32, _G, _G_SPOT),
        Machine("g5.12xlarge", "A10G", 4, 48, 192, _G, _G_SPOT),
        Machine("g5.48xlarge", "A10G", 8, 192, 768, _G, _G_SPOT),
        Machine("g6.xlarge", "L4", 1, 4, 16, _G, _G_SPOT),
        Machine("g6.2xlarge", "L4", 1, 8, 32, _G, _G_SPOT),
        Machine("g6.4xlarge", "L4", 1, 16, 64, _G, _G_SPOT),
        Machine("g6.8xlarge", "L4", 1, 32, 128, _G, _G_SPOT),
        Machine("g6.16xlarge", "L4", 1, 64, 256, _G, _G_SPOT),
        Machine("g6.12xlarge", "L4", 4, 48, 192, _G, _G_SPOT),
        Machine("g6.24xlarge", "L4", 4, 96, 384, _G, _G_SPOT),
        Machine("g6.48xlarge", "L4", 8, 192, 768, _G, _G_SPOT),
        Machine("g6e.xlarge", "L40S", 1, 4, 32, _G, _G_SPOT),
        Machine("g6e.2xlarge", "L40S", 1, 8, 64, _G, _G_SPOT),
        Machine("g6e.4xlarge", "L40S", 1, 16, 128, _G, _G_SPOT),
        Machine("g6e.8xlarge", "L40S", 1, 32, 256, _G, _G_SPOT),
        Machine("g6e.16xlarge", "L40S", 1, 64, 512, _G, _G_SPOT),
        Machine("g6e.12xlarge", "L40S", 4, 48, 384, _G, _G_SPOT),
        Machine("g6e.24xlarge", "L40S", 4, 96, 768, _G, _G_SPOT),
        Machine("g6e.48xlarge", "L40S", 8, 192, 1536, _G, _G_SPOT),
        Machine("p4d.24xlarge", "A100-40GB", 8, 96, 1152, _P, _P4_SPOT),
        Machine("p4de.24xlarge", "A100-80GB", 8, 96, 1152, _P, _P4_SPOT),
        Machine("p5.4xlarge", "H100", 1, 16, 256, _P, _P5_SPOT),
        Machine("p5.48xlarge", "H100", 8, 192, 2048, _P, _P5_SPOT),
        Machine("p5e.48xlarge", "H200", 8, 192, 2048, _P, _P5_SPOT),
        Machine("p5en.48xlarge", "H200", 8, 192, 2048, _P, _P5_SPOT),
        Machine("p6-b200.48xlarge", "B200", 8, 192, 2048, _P, _P6_SPOT, _BLACKWELL),
        Machine("p6-b300.48xlarge", "B300", 8, 192, 4096, _P, _P6_SPOT, _BLACKWELL),
        Machine("p6e-gb200.36xlarge", "GB200", 4, 144, 960, _P, _P6_SPOT, _GRACE),
    )
}


def machine(name: str) -> Machine:
    """Returns an instance type by name.

    Raises:
        PlanError: It is discontinued, or cloudgan does not support it; names the nearest.
    """
    refuse_discontinued("aws", name)
    found = MACHINES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, MACHINES, n=3, cutoff=0.2) or list(MACHINES)[:3]
        raise PlanError(
            f"cloudgan does not support AWS instance type {name}: it needs NVIDIA GPUs that the EKS"
            f" image supports. The nearest: {', '.join(near)}"
        )
    return found
