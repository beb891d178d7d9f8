"""Garbage collector: deletes orphaned resources, run by run; live runs are kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cloudgan.core.errors import CloudganError, ResourcesLeftError
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.operations.inventory import Inventory, InventoryScanner, is_orphaned
from cloudgan.schema.resource import Resource


@dataclass(frozen=True)
class GarbageCollector:
    """Deletes the orphaned resources of an inventory.

    Attributes:
        scanner: Of the account.
        say: Progress callback.
        poll_seconds: Poll interval.
    """

    scanner: InventoryScanner
    say: Callable[[str], None]
    poll_seconds: float = 5.0

    def collect(self, inventory: Inventory, now: dt.datetime) -> Iterator[str]:
        """Deletes resources of ended runs, then unowned ones; yields each name when it is gone.

        Args:
            inventory: The newest.
            now: In UTC.

        Raises:
            ResourcesLeftError: At least one resource remains; the others are deleted.
        """
        failures: list[str] = []
        engine = Engine(self.scanner.cloud, self.say, self.poll_seconds)
        for run, resources in _by_run(inventory).items():
            try:
                if self.scanner.is_alive(run, inventory):
                    self.say(f"run {run} is active or its state is unknown: skipped")
                else:
                    yield from self._remove_run(run, resources, inventory, engine)
            except CloudganError as error:
                failures.append(str(error))
        try:
            yield from names_of_gone(engine.destroy(self._unneeded(now)))
        except CloudganError as error:
            failures.append(str(error))
        if failures:
            raise ResourcesLeftError("; ".join(failures))

    def _unneeded(self, now: dt.datetime) -> list[Resource]:
        """The unowned orphaned resources of a new scan: a run may use one since the last scan."""
        return [
            resource
            for resource, status in self.scanner.scan(now).resources
            if resource.run is None and is_orphaned(status)
        ]

    def _remove_run(
        self, run: str, resources: list[Resource], inventory: Inventory, engine: Engine
    ) -> Iterator[str]:
        desired_state = inventory.runs[run].desired_state
        if desired_state is None or not desired_state.is_open:
            yield from names_of_gone(engine.destroy(resources))
            return
        here = desired_state.plan.target.model_copy(update={"profile": inventory.target.profile})
        yield from self.scanner.open_backend(here, desired_state.plan.store).destroy(run)


def _by_run(inventory: Inventory) -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = {}
    for resource, status in inventory.resources:
        if resource.run and is_orphaned(status):
            found.setdefault(resource.run, []).append(resource)
    return found
