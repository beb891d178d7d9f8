"""Opens the provider of machines that are made for a run."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from cloudgan.cli.place import RUNS
from cloudgan.core import plan as plans
from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, UnknownNameError
from cloudgan.core.labels import as_value
from cloudgan.launching.intents import Intents
from cloudgan.launching.rented import RentedProvider
from cloudgan.planning.renting import all_steps
from cloudgan.providers.clouds import BUILT_IN, HOME_REGIONS, of_login, open_cloud, region_of, rules
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.plan import Place, Plan
    from cloudgan.launching.cloud import Cloud
    from cloudgan.launching.provider import Provider
    from cloudgan.providers.clouds import Clouds

NAMESPACE = "cloudgan"


def open_rented(
    place: Place, say: Callable[[str], None], store: str | None, clouds: Clouds = BUILT_IN
) -> RentedProvider:
    """Opens a cloud and the store of its runs.

    Args:
        place: Where; its account is known.
        say: Is told what is waited for.
        store: Of the run; None: the account's own in this region.
        clouds: Those that are known.
    """
    cloud = clouds.open(place, say)

    def inner(plan: Plan) -> Provider | None:
        if plan.rental is not None and plan.rental.engine == "tpu_vm":
            found: Provider = cloud.tpu_vms(plan)
            return found
        api = cloud.cluster(plan)
        return KubernetesProvider(api, plan.place.namespace or NAMESPACE) if api else None

    intents = Intents(open_store(store or clouds.rules(place.provider).store(place)), _holder())
    return RentedProvider(
        cloud,
        intents,
        inner=inner,
        all_steps=lambda plan: all_steps(plan, clouds),
        say=say,
        poll_seconds=clouds.poll_seconds,
    )


def account_place(said: Where) -> Place:
    """Returns the place of an account, with ``<...>`` for what its login will tell."""
    assert said.provider is not None  # noqa: S101  the caller asked for a cloud
    region = said.region or HOME_REGIONS[said.provider]
    account = said.project or said.subscription
    place = rules(said.provider).place(account, region, None, None)
    return place.model_copy(update={"profile": said.profile})


def known_stores(provider: str) -> tuple[str, ...]:
    """Returns the stores of the rented runs that this folder remembers."""
    found = [plans.read(path) for path in sorted(RUNS.glob(f"*/{plans.FILE_NAME}"))]
    return tuple(dict.fromkeys(p.store for p in found if p.place.provider == provider))


def find_rented(run: str, said: Where, say: Callable[[str], None]) -> tuple[Plan, RentedProvider]:
    """Finds a run by its intent, in the stores of an account.

    Raises:
        ConfigError: It is in none of them.
        CredentialsError: Nobody is logged in, or may not read any of them.
    """
    place = account_place(said)
    known: set[str] = set()
    refused: CloudganError | None = None
    for url in _stores(open_cloud(place, say), place, said):
        intents = Intents(open_store(url), _holder())
        try:
            found = intents.read(run)
            known |= set(() if found else intents.runs())
        except CloudganError as error:  # such as a region without a bucket
            refused = refused or (error if isinstance(error, CredentialsError) else None)
            continue
        if found:
            here = found.plan.place.model_copy(update={"profile": said.profile})
            plan = found.plan.model_copy(update={"place": here})
            return plan, open_rented(here, say, plan.store)
    if refused:
        raise refused
    if known:
        raise UnknownNameError(f"run in {said.provider}", run, known)
    raise ConfigError(
        f"there is no run {run} in {said.provider}, nor any other that its buckets know; name"
        " --region, or --store where the run had one of its own"
    )


def _stores(cloud: Cloud, place: Place, said: Where) -> Iterator[str]:
    """The stores in which the intent may be; the likeliest first."""
    if said.store:
        yield said.store
        return
    here = of_login(place, cloud.identify())
    regions = [here.region or ""]
    if not said.region:
        there = {region_of(here.provider, thing.region) for thing in cloud.things() if thing.region}
        regions = sorted(there) or regions
    for region in regions:
        yield rules(here.provider).store(here.model_copy(update={"region": region}))


def _holder() -> str:
    user, host = as_value(settings.user_name()), as_value(platform.node())
    return f"{user} on {host}"
