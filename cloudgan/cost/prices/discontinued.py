"""Node types that a cloud no longer sells in any region."""

from __future__ import annotations

from typing import NamedTuple

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import PlanError


class Discontinued(NamedTuple):
    """A discontinued node type.

    Attributes:
        provider: Cloud.
        node_type: Name in the cloud.
        accelerator: Name in the price list.
        accelerator_count: Number of accelerators.
        since: Date, ISO 8601.
        replacement: Accelerators of the nearest node type that the cloud sells.
        source: Source of the date.
    """

    provider: str
    node_type: str
    accelerator: str
    accelerator_count: int
    since: str
    replacement: str
    source: str

    @property
    def message(self) -> str:
        """Message for a request of this node type."""
        return (
            f"{CLOUDS[self.provider].title} discontinued {self.node_type} ({self.accelerator_count} x"
            f" {self.accelerator}): since {self.since} no region has it. Use"
            f" --accelerator={self.replacement}"
        )


# Replacements: Microsoft's migration pages name NC A100 v4 for V100 and T4 for P100, AWS newer G and P instances.
_NCV2 = "https://learn.microsoft.com/azure/virtual-machines/n-series-migration (read 2026-11-21)"
_NCV3 = (
    "https://github.com/MicrosoftDocs/azure-docs/blob/main/articles/virtual-machines/"
    "ncv3-nc6s-nc12s-nc24s-retirement.md (2024-03-19)"
)
# Microsoft's list of retired sizes gives both parts of NCv3 the later date (retired-sizes-list.md of
# https://github.com/MicrosoftDocs/azure-compute-docs, read 2026-11-25); its guide to NC24rs_v3, and this notice, written
# after the day, the earlier one.
_NC24RS = "https://github.com/Azure/AKS/issues/4949 (2025-04-11)"
# AWS asked its users to leave by 2025-12-20 (https://github.com/zalando-incubator/kubernetes-on-aws/pull/8685); from
# this day on its API is known not to list them.
_P3 = "https://github.com/dstackai/gpuhunt/pull/233 (2026-05-25)"

DISCONTINUED = (
    Discontinued("aws", "p3.2xlarge", "V100", 1, "2026-05-25", "A10G:1", _P3),
    Discontinued("aws", "p3.8xlarge", "V100", 4, "2026-05-25", "A10G:4", _P3),
    Discontinued("aws", "p3.16xlarge", "V100", 8, "2026-05-25", "A100-40GB:8", _P3),
    Discontinued("aws", "p3dn.24xlarge", "V100-32GB", 8, "2026-05-25", "A100-40GB:8", _P3),
    Discontinued("azure", "Standard_NC6s_v2", "P100", 1, "2023-08-31", "T4:1", _NCV2),
    Discontinued("azure", "Standard_NC12s_v2", "P100", 2, "2023-08-31", "T4:4", _NCV2),
    Discontinued("azure", "Standard_NC24s_v2", "P100", 4, "2023-08-31", "T4:4", _NCV2),
    Discontinued("azure", "Standard_NC24rs_v2", "P100", 4, "2023-08-31", "T4:4", _NCV2),
    Discontinued("azure", "Standard_NC6s_v3", "V100", 1, "2025-09-30", "A100-80GB:1", _NCV3),
    Discontinued("azure", "Standard_NC12s_v3", "V100", 2, "2025-09-30", "A100-80GB:2", _NCV3),
    Discontinued("azure", "Standard_NC24s_v3", "V100", 4, "2025-09-30", "A100-80GB:4", _NCV3),
    Discontinued("azure", "Standard_NC24rs_v3", "V100", 4, "2025-03-31", "A100-80GB:4", _NC24RS),
)


def discontinued(provider: str | None, node_type: str) -> Discontinued | None:
    """Returns the entry of a node type, of any cloud if `provider` is None; None: it is sold or unknown."""
    for one in DISCONTINUED:
        if one.node_type.casefold() == node_type.casefold() and provider in (None, one.provider):
            return one
    return None


def refuse_discontinued(provider: str | None, node_type: str) -> None:
    """Refuses a discontinued node type.

    Raises:
        PlanError: With date and replacement.
    """
    if gone := discontinued(provider, node_type):
        raise PlanError(gone.message)


def refuse_missing_accelerator(provider: str | None, accelerator: str, count: int | None) -> None:
    """Refuses an accelerator for which no offer of a cloud was found, if the cloud discontinued it.

    Args:
        provider: Cloud.
        accelerator: Name or family.
        count: Requested number in a node; None: any.

    Raises:
        PlanError: With date and replacement.
    """
    name = accelerator.casefold()
    gone = [
        one
        for one in DISCONTINUED
        if one.provider == provider and f"{one.accelerator.casefold()}-".startswith(f"{name}-")
    ]
    if gone:
        raise PlanError(
            next((one for one in gone if one.accelerator_count == count), gone[0]).message
        )
