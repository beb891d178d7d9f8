"""Pins the image of a run: from the moment of deploy on, its tag means what it meant then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.providers.registry_logins import registry_login
from cloudgan.registries.client import Registry
from cloudgan.registries.failure import RegistryError
from cloudgan.registries.reference import parse
from cloudgan.registries.resolving import is_pinned, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan

_OF_NODES = "linux/amd64"


def open_registry(host: str) -> Registry:
    """Opens the registry of a host with the login that is known for it here, or with none."""
    try:
        return Registry(host, registry_login(host))
    except CredentialsError as error:  # what is public needs none
        return Registry(host, why_no_login=str(error))


def pinned(
    plan: Plan,
    before: Plan | None,
    say: Callable[[str], None],
    open_registry: Callable[[str], Registry] = open_registry,
) -> Plan:
    """Returns a plan whose image has its digest, or a warning why it has none.

    A run that goes on keeps the image that it began with, whatever the tag means by now.

    Args:
        plan: With an image as it was asked for; its steps are not made anew.
        before: How the run was meant when it began; None: it is new.
        say: Is told what was found.
        open_registry: Opens the registry of a host.

    Raises:
        ConfigError: There is no such image, or none that the nodes can run.
    """
    image = plan.workers.image
    if image is None or is_pinned(image):
        return plan
    kept = before.workers.image if before and before.spec == plan.spec else None
    if kept and replace(parse(kept), digest=None) == parse(image) and is_pinned(kept):
        say(f"goes on with the image that it began with, {kept}")
        return _with_image(plan, kept)
    try:
        found = resolve(image, open_registry)
    except (CredentialsError, RegistryError) as error:
        return _warned(plan, f"{error}")
    _check_platform(plan, found.platforms)
    return _with_image(plan, found.image)


def _check_platform(plan: Plan, platforms: tuple[str, ...]) -> None:
    if not platforms or _OF_NODES in platforms or not plan.place.is_rented:
        return
    raise ConfigError(
        f"--image={plan.workers.image} is built for {' and '.join(platforms)}, and the nodes are"
        f" {_OF_NODES}; build it with --platform={_OF_NODES}, or type: cloudgan image"
        f" --provider={plan.place.provider}"
    )


def _warned(plan: Plan, why: str) -> Plan:
    warning = (
        f"image {plan.workers.image} goes by its tag, without a digest: {why}. The nodes may pull it"
        " all the same; but pods that start later may get another image, and no record will tell"
        " which one trained. Name it by its digest, or make a login of its registry that this machine sees"
    )
    return plan.model_copy(update={"warnings": (*plan.warnings, warning)})


def _with_image(plan: Plan, image: str) -> Plan:
    workers = plan.workers.model_copy(update={"image": image})
    return plan.model_copy(update={"workers": workers})
