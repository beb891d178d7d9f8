"""Which account of which cloud: the flags of commands that look at accounts, not at runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.launch_flags import Where
from cloudgan.core.errors import ConfigError
from cloudgan.core.plan import CLOUDS, CloudName

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_CLOUD = Where()


def account_flags(
    *,
    provider: CloudName | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    region: str | None = None,
) -> Where:
    """Returns which accounts are meant.

    Args:
        provider: gcp, aws or azure. Default: each that you are logged in to.
        project: Of Google Cloud. Default: that of your login.
        profile: Of AWS' own files. Default: AWS_PROFILE, or whatever login is found.
        subscription: Of Azure. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        region: Such as us-central1; each cloud has names of its own, so give --provider too.

    Raises:
        ConfigError: Flags of one cloud were given for another, or for all.
    """
    own = {"gcp": project, "aws": profile, "azure": subscription}
    for cloud, flag in (("gcp", "project"), ("aws", "profile"), ("azure", "subscription")):
        if own[cloud] and provider not in (cloud, None):
            raise ConfigError(f"--{flag} is one of {cloud}, and --provider={provider} was asked")
    if region and provider is None:
        raise ConfigError(f"--region={region} is in one cloud: add --provider={', '.join(CLOUDS)}")
    return Where(
        provider=provider,
        project=project,
        profile=profile,
        subscription=subscription,
        region=region,
    )


def each_cloud(said: Where) -> Iterator[Where]:
    """Yields one place for each cloud that is meant, with its own flags only."""
    for name in CLOUDS if said.provider is None else (said.provider,):
        yield said._replace(
            provider=name,
            project=said.project if name == "gcp" else None,
            profile=said.profile if name == "aws" else None,
            subscription=said.subscription if name == "azure" else None,
        )
