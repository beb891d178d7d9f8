"""Which lists each cloud is asked for, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.cost.catalog import shipped_catalog
from cloudgan.cost.refresh.aws import AWS_URL, aws_quotes
from cloudgan.cost.refresh.aws_spot import aws_spot_quotes
from cloudgan.cost.refresh.azure import AZURE_URL, azure_quotes
from cloudgan.cost.refresh.gcp import GCP_KEY, GCP_URL, gcp_quotes
from cloudgan.cost.refresh.refreshing import Part
from cloudgan.cost.refresh.wanted import wanted
from cloudgan.cost.refresh.web import Web

if TYPE_CHECKING:
    import datetime as dt

    from cloudgan.core.progress import Progress
    from cloudgan.cost.catalog import Catalog


def parts_by_source(
    progress: Progress, now: dt.datetime, web: Web | None = None, known: Catalog | None = None
) -> dict[str, tuple[Part, ...]]:
    """Returns the lists of each cloud, which are read when they are asked.

    CLOUDGAN_AWS_PRICES_URL, CLOUDGAN_AZURE_PRICES_URL and CLOUDGAN_GCP_PRICES_URL name other
    places, such as a mirror.

    Args:
        progress: Hears how far it is.
        now: Prices that hold at this time.
        web: Asks; None: with patience.
        known: Whose nodes and regions are asked for; None: all that the package knows.
    """
    web, today = web or Web(), now.date()
    known = known or shipped_catalog()
    aws, azure, gcp = (wanted(known, name) for name in ("aws", "azure", "gcp"))
    aws_url = settings.variable("CLOUDGAN_AWS_PRICES_URL") or AWS_URL
    azure_url = settings.variable("CLOUDGAN_AZURE_PRICES_URL") or AZURE_URL
    gcp_url = settings.variable("CLOUDGAN_GCP_PRICES_URL") or GCP_URL
    key = settings.variable(GCP_KEY)
    return {
        "aws": (
            Part(
                "list prices",
                lambda: aws_quotes(web, aws, today, progress, aws_url),
                ("on_demand",),
            ),
            Part("spot prices", lambda: aws_spot_quotes(aws, now, progress), ("spot",)),
        ),
        "azure": (
            Part(
                "list and spot prices", lambda: azure_quotes(web, azure, today, progress, azure_url)
            ),
        ),
        "gcp": (
            Part(
                "list and spot prices",
                lambda: gcp_quotes(web, gcp, today, progress, key=key, url=gcp_url),
            ),
        ),
    }
