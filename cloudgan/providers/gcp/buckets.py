"""The project's own buckets: found, made, and never believed to be ours by their name alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.addresses import PROJECTS, STORAGE
from cloudgan.providers.gcp.refusal import AbsentError, TakenError

if TYPE_CHECKING:
    from cloudgan.core.plan import Step
    from cloudgan.providers.gcp.api import GoogleApi

KIND = "bucket"
PREFIX = "cloudgan-"
_RANK = 60


class Buckets:
    """The buckets of one project.

    Args:
        api: That is asked.
        project: Its id.
    """

    host = "storage.googleapis.com"
    kinds = (KIND,)

    def __init__(self, api: GoogleApi, project: str) -> None:
        self._api, self._project = api, project

    def find(self, step: Step) -> Thing | None:
        """Returns the bucket of a step.

        Raises:
            ConfigError: It belongs to another project: whoever owns it would read what we write.
        """
        assert step.find is not None  # noqa: S101
        try:
            body = self._api.find(step.find)
        except CredentialsError as error:
            raise CredentialsError(
                f"{step.ensure} cannot be looked at: it is another project's, or this login lacks"
                f" storage.buckets.get ({error})"
            ) from error
        if body is None:
            return None
        self._refuse_stranger(step.ensure, body)
        return _thing(body)

    def create(self, step: Step) -> None:
        """Makes a bucket."""
        try:
            self._api.send(step.method, step.path, step.body, what=step.ensure)
        except TakenError:
            self.find(step)  # ours after a lost answer; a stranger's is told

    def things(self, run: str | None) -> tuple[Thing, ...]:
        """Lists the buckets that cloudgan made."""
        if run is not None:
            return ()
        pages = self._api.pages(f"{STORAGE}/b", project=self._project, prefix=PREFIX)
        found = [_thing(one) for page in pages for one in page.get("items", ())]
        return tuple(one for one in found if one.shared)

    def delete(self, thing: Thing) -> None:
        """Deletes a bucket; one that holds something stays, which is said."""
        try:
            self._api.send("DELETE", f"{STORAGE}/b/{thing.name}", what=f"bucket {thing.name}")
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a bucket as it is now."""
        body = self._api.find(f"{STORAGE}/b/{thing.name}")
        return _thing(body) if body else None

    @functools.cached_property
    def _number(self) -> str:
        found = self._api.send("GET", f"{PROJECTS}/projects/{self._project}")
        return str(found["name"]).rpartition("/")[2]

    def _refuse_stranger(self, what: str, body: dict[str, Any]) -> None:
        if str(body.get("projectNumber")) != self._number:
            raise ConfigError(
                f"{what} belongs to another project than {self._project}; give a bucket of your own:"
                " --store=gs://BUCKET/prefix"
            )


def _thing(body: dict[str, Any]) -> Thing:
    return Thing(
        kind=KIND,
        name=body["name"],
        state="ready",
        labels=body.get("labels") or {},
        region=str(body.get("location", "")).lower(),
        rank=_RANK,
        made=body.get("timeCreated"),
        fee="Cloud Storage Standard",
    )
