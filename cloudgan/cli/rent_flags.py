"""What is rented for a run: the flags that mean something where nodes are made for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from cloudgan.cli.durations import seconds_of
from cloudgan.core.errors import ConfigError
from cloudgan.providers.clouds import region_of

SpotFlag = Literal["auto", "always", "never"]
FallbackFlag = Literal["none", "same", "any"]


@dataclass(frozen=True)
class RentFlags:
    """What was asked, checked as far as no file and no network is needed.

    Attributes:
        account: Project, account or subscription; None: that of the login.
        regions: In which nodes may be, the first one preferred; none: the cheapest.
        zone: In which all nodes have to be.
        spot: Whether nodes may be taken back.
        spot_wait_seconds: For spot nodes, until nodes on demand are taken.
        fallback: What may be taken where there is no room: nothing else, the same elsewhere, or
            anything that trains the same.
        allow_unmeasured: Whether an accelerator counts on which nothing was measured.
        allow_unknown_price: Whether a node may be rented of which nobody knows the price.
    """

    account: str | None = None
    profile: str | None = None
    regions: tuple[str, ...] = ()
    zone: str | None = None
    cluster: str | None = None
    keep_cluster: bool = False
    spot: SpotFlag = "auto"
    flex_start: bool = False
    pull_secret: str | None = None
    max_usd_per_hour: float | None = None
    spot_wait_seconds: float = 1200.0
    fallback: FallbackFlag = "none"
    allow_unmeasured: bool = False
    allow_unknown_price: bool = False


NOTHING_RENTED = RentFlags()


def rent_flags(
    *,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    keep_cluster: bool = False,
    spot: SpotFlag = "auto",
    flex_start: bool = False,
    image_pull_secret: str | None = None,
    max_usd_per_hour: float | None = None,
    spot_wait: str = "20m",
    fallback: FallbackFlag = "none",
    allow_unmeasured: bool = False,
    allow_unknown_price: bool = False,
) -> RentFlags:
    """Returns what was asked.

    Args:
        project: Of Google Cloud. Default: that of your login.
        profile: Of AWS' own files. Default: AWS_PROFILE, or whatever login is found.
        subscription: Of Azure. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        region: One or more, such as us-central1,europe-west4. Default: the cheapest.
        zone: In which all nodes are. Default: one that has these machines.
        cluster: Of yours, which is then never deleted. Default: cloudgan, made where it is not there.
        keep_cluster: Leave a cluster that was made for the next run; it bills by the hour.
        spot: auto (where it is cheaper with its losses), always, or never.
        flex_start: Wait for Google's cheaper flex-start nodes.
        image_pull_secret: Kubernetes secret by which a private registry lets pods in.
        max_usd_per_hour: Most that all nodes together may cost per hour.
        spot_wait: How long --spot=auto waits for spot nodes before it takes nodes on demand.
        fallback: Where a place has no room or no quota: none, same (accelerator, count and global
            batch, elsewhere), or any (offer that keeps the global batch).
        allow_unmeasured: Consider accelerators on which this network was never measured.
        allow_unknown_price: Rent a type of node, named by --accelerator, of which nobody knows the
            price in a region, named by --region.

    Raises:
        ConfigError: A value is not possible.
    """
    accounts = [given for given in (project, subscription) if given]
    if len(accounts) > 1:
        raise ConfigError("--project is Google's and --subscription is Azure's: give one of them")
    if max_usd_per_hour is not None and max_usd_per_hour <= 0:
        raise ConfigError(f"--max_usd_per_hour={max_usd_per_hour:g} must be above zero")
    return RentFlags(
        account=accounts[0] if accounts else None,
        profile=profile,
        regions=tuple(filter(None, (region or "").split(","))),
        zone=zone,
        cluster=cluster,
        keep_cluster=keep_cluster,
        spot=spot,
        flex_start=flex_start,
        pull_secret=image_pull_secret,
        max_usd_per_hour=max_usd_per_hour,
        spot_wait_seconds=seconds_of(spot_wait, "--spot_wait"),
        fallback=fallback,
        allow_unmeasured=allow_unmeasured,
        allow_unknown_price=allow_unknown_price,
    )


def within_zone(rent: RentFlags, provider: str) -> RentFlags:
    """Returns what was asked, in the zone's region alone where a zone was named.

    Zones of Azure are called 1, 2 and 3 in each region, and restrict nothing.

    Raises:
        ConfigError: The zone is in none of the regions that were named.
    """
    zone = rent.zone or ""
    region = region_of(provider, zone) if zone else ""
    if region == zone:
        return rent
    if rent.regions and region not in rent.regions:
        raise ConfigError(
            f"--zone={zone} is not in --region={','.join(rent.regions)}; give --region={region}, or"
            " leave one of them out"
        )
    return replace(rent, regions=(region,))
