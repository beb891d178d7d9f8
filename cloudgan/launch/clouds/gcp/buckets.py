"""The project's buckets; ownership is verified by project number, not by name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.launch.clouds.gcp.addresses import PROJECTS, STORAGE
from cloudgan.launch.clouds.gcp.error_mapping import TakenError
from cloudgan.schema.resource import Listing, Resource

if TYPE_CHECKING:
    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Step

KIND = "bucket"
PREFIX = "cloudgan-"
_RANK = 60


class Buckets:
    """The buckets of one project.

    Args:
        api: Google's APIs.
        project: Project ID.
    """

    host = "storage.googleapis.com"
    kinds = (KIND,)

    def __init__(self, api: GoogleApi, project: str) -> None:
        self._api, self._project = api, project

    def find(self, step: Step) -> Resource | None:
        """Returns the bucket of a step.

        Raises:
            ConfigError: It belongs to another project, whose owner could read the run's data.
        """
        assert step.find is not None  # noqa: S101
        try:
            body = self._api.find(step.find)
        except CredentialsError as error:
            raise CredentialsError(
                f"cannot read {step.ensure}: it belongs to another project, or this login lacks"
                f" storage.buckets.get ({error})"
            ) from error
        if body is None:
            return None
        self._require_own(step.ensure, body)
        return _resource(body)

    def create(self, step: Step) -> None:
        """Creates a bucket."""
        try:
            self._api.send(step.method, step.path, step.body, what=step.ensure)
        except TakenError:
            self.find(step)  # ours after a lost response; raises for another project's

    def list_resources(self, run: str | None) -> Listing:
        """Lists the buckets that cloudgan created."""
        if run is not None:
            return Listing()
        query = {"project": self._project, "prefix": PREFIX, "returnPartialSuccess": "true"}
        pages = list(self._api.pages(f"{STORAGE}/b", **query))
        found = [_resource(one) for page in pages for one in page.get("items", ())]
        silent = [one.rpartition("/")[2] for page in pages for one in page.get("unreachable", ())]
        return Listing((one for one in found if one.shared), silent)

    def delete(self, resource: Resource) -> None:
        """Deletes a bucket; Google refuses unless it is empty."""
        self._api.delete(f"{STORAGE}/b/{resource.name}", f"bucket {resource.name}")

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a bucket."""
        body = self._api.find(f"{STORAGE}/b/{resource.name}")
        return _resource(body) if body else None

    @functools.cached_property
    def _number(self) -> str:
        found = self._api.send("GET", f"{PROJECTS}/projects/{self._project}")
        return str(found["name"]).rpartition("/")[2]

    def _require_own(self, bucket: str, body: dict[str, Any]) -> None:
        if str(body.get("projectNumber")) != self._number:
            raise ConfigError(
                f"{bucket} belongs to another project than {self._project}; pass your own bucket:"
                " --store=gs://BUCKET/prefix"
            )


def _resource(body: dict[str, Any]) -> Resource:
    return Resource(
        kind=KIND,
        name=body["name"],
        state="ready",
        labels=body.get("labels") or {},
        region=str(body.get("location", "")).lower(),
        deletion_order=_RANK,
        created_at=body.get("timeCreated"),
        fee="Cloud Storage Standard",
    )
