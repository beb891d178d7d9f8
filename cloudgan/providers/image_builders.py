"""The clouds' own builders by name: what each is asked, as pure values, and what asks it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.core.image_order import ImageOrder
    from cloudgan.core.plan import Place, Step

_CLIENTS = {"aws": "AwsImageBuilder", "azure": "AzureImageBuilder", "gcp": "GcpImageBuilder"}


class ImageRules(Protocol):
    """The functions of ``providers/NAME/image_requests.py``, which need no SDK."""

    ARCHIVE: Literal["tar.gz", "zip"]

    def image_name(self, order: ImageOrder) -> str:
        """Returns what is built, as `--image` takes it, but for its digest."""

    def steps(self, order: ImageOrder) -> tuple[Step, ...]:
        """Returns everything that is sent, in its order."""


def image_rules(cloud: str) -> ImageRules:
    """Returns what is true of a cloud's builder without asking it."""
    return cast("ImageRules", importlib.import_module(f"cloudgan.providers.{cloud}.image_requests"))


def open_image_builder(place: Place) -> Any:
    """Opens the builder of a place with the login that its cloud's SDK finds.

    Returns:
        A `launching.image_building.ImageBuilder`, whose `account` is known.

    Raises:
        ConfigError: The SDK is not installed.
        CredentialsError: No login was found.
    """
    try:
        module = importlib.import_module(f"cloudgan.providers.{place.provider}.image_build")
    except ImportError as error:
        raise ConfigError(
            f"--provider={place.provider} needs this cloud's SDK, which is not installed ({error});"
            f" type: pip install 'cloudgan[{place.provider}]'"
        ) from error
    return getattr(module, _CLIENTS[place.provider]).open(place)
