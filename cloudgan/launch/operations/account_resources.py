"""Account-wide resources: created by `cloudgan setup`, deleted by its teardown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cloudgan.core.clouds import region_of
from cloudgan.core.errors import ConfigError
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.operations.inventory import Inventory
from cloudgan.schema.plan import Step
from cloudgan.schema.resource import Resource

BUCKET: Final = "bucket"
_OPEN: Final = frozenset({"starting", "started", "removing"})


@dataclass(frozen=True)
class AccountSetup:
    """One account and region of one cloud.

    Attributes:
        cloud: Cloud client.
        say: Progress callback.
        poll_seconds: Poll interval.
    """

    cloud: CloudClient
    say: Callable[[str], None]
    poll_seconds: float = 5.0

    def create(self, steps: Iterable[Step]) -> Iterator[tuple[Step, bool]]:
        """Creates missing resources; yields each step and whether a request was sent. Idempotent.

        Raises:
            CloudganError: The cloud rejects a request; earlier resources stay.
        """
        engine = Engine(self.cloud, self.say, self.poll_seconds)
        for step in steps:
            yield step, engine.ensure(step, None)

    def destroy(self, resources: Iterable[Resource]) -> Iterator[str]:
        """Deletes resources; yields each name when it is gone.

        Raises:
            LaunchError: A resource is not deleted.
        """
        engine = Engine(self.cloud, self.say, self.poll_seconds)
        yield from names_of_gone(engine.destroy(resources))


def teardown_resources(
    inventory: Inventory, *, everywhere: bool, purge: bool
) -> tuple[Resource, ...]:
    """Returns the resources that a teardown deletes.

    Args:
        inventory: Of the account.
        everywhere: All regions.
        purge: Include the buckets.

    Raises:
        ConfigError: Runs are open and need these resources.
    """
    here = region_of(inventory.target.provider, inventory.target.region or "")
    resources = [
        resource
        for resource, _ in inventory.resources
        if everywhere or region_of(inventory.target.provider, resource.region) in (here, "")
    ]
    _refuse_open(inventory, resources, None if everywhere else here)
    kept = [one for one in resources if one.shared == BUCKET and not purge]
    elsewhere = {
        region_of(inventory.target.provider, one.region) for one, _ in inventory.resources
    } - {
        here,
        "",
    }
    return tuple(
        resource
        for resource in resources
        if resource.run is None
        and resource not in kept
        and not any(_holds(resource, bucket) for bucket in kept)
        and (resource.region or everywhere or not elsewhere)  # global: deleted with the last region
    )


def _holds(resource: Resource, bucket: Resource) -> bool:
    """Whether deleting a resource deletes a bucket in it, such as an Azure resource group."""
    return resource.name == bucket.parent or bucket.name.lower().startswith(
        f"{resource.name.lower()}/"
    )


def _refuse_open(inventory: Inventory, resources: Iterable[Resource], region: str | None) -> None:
    runs = {resource.run for resource in resources if resource.run}
    for view in inventory.runs.values():
        is_here = view.desired_state is None or region in (
            None,
            view.desired_state.plan.target.region,
        )
        if is_here and (
            view.is_alive or (view.desired_state and view.desired_state.state in _OPEN)
        ):
            runs.add(view.run)
    if runs:
        named = ", ".join(sorted(runs))
        first = min(runs)
        raise ConfigError(
            f"runs are open: {named}; delete each first, such as with `cloudgan down {first}"
            f" --provider={inventory.target.provider}`"
        )
