"""What a pod installed before its program began: `cloudgan-wheels.json`, beside the packages.

k8s/fetch_wheels.py writes it, in an image that has no cloudgan.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE_NAME = "cloudgan-wheels.json"


class InstalledWheels(BaseModel):
    """How much, and how long it took by the pod's own clock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str = Field(description="of the end, UTC, ISO 8601; tells one pod's from another's")
    wheels: int = Field(ge=0)
    bytes: int = Field(ge=0)
    fetch_seconds: float = Field(ge=0, allow_inf_nan=False)
    install_seconds: float = Field(ge=0, allow_inf_nan=False)

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.fetch_seconds + self.install_seconds


def installed_wheels(site: Path | None = None) -> InstalledWheels | None:
    """Returns what was installed for this program; None where it came another way.

    Args:
        site: Folder of the packages; None: the one that this package runs from.
    """
    path = (site or Path(__file__).parents[2]) / FILE_NAME
    try:
        return InstalledWheels.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
