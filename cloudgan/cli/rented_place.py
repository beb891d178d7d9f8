"""Opens the provider of machines that are made for a run."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.core.labels import as_value
from cloudgan.launching.intents import Intents
from cloudgan.launching.rented import RentedProvider
from cloudgan.planning.renting import all_steps
from cloudgan.providers.clouds import open_cloud, rules
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Place, Plan
    from cloudgan.launching.provider import Provider

NAMESPACE = "cloudgan"


def open_rented(place: Place, say: Callable[[str], None], store: str | None) -> RentedProvider:
    """Opens a cloud and the store of its runs.

    Args:
        place: Where; its account is known.
        say: Is told what is waited for.
        store: Of the run; None: the account's own in this region.
    """
    cloud = open_cloud(place, say)

    def inner(plan: Plan) -> Provider | None:
        if plan.rental is not None and plan.rental.engine == "tpu_vm":
            found: Provider = cloud.tpu_vms(plan)
            return found
        api = cloud.cluster(plan)
        return KubernetesProvider(api, plan.place.namespace or NAMESPACE) if api else None

    intents = Intents(open_store(store or rules(place.provider).store(place)), _holder())
    return RentedProvider(cloud, intents, inner=inner, all_steps=all_steps, say=say)


def _holder() -> str:
    user, host = as_value(settings.user_name()), as_value(platform.node())
    return f"{user} on {host}"
