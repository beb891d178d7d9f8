"""The repositories of images that `cloudgan image` made in Artifact Registry: listed and deleted.

That `locations/-` stands for all of them no page of Google's says; public repositories ask so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CredentialsError
from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.addresses import REGISTRY
from cloudgan.providers.gcp.refusal import AbsentError, SwitchedOffError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.providers.gcp.api import GoogleApi

KIND = "image repository"
FEE = "Artifact Registry"
_RANK = 60


class Registries:
    """What Artifact Registry has of one project.

    Args:
        api: That is asked.
        project: Its id.
        say: Is told why nobody looked.
    """

    kinds = (KIND,)

    def __init__(
        self, api: GoogleApi, project: str, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._api, self._project, self._say = api, project, say

    def things(self, run: str | None) -> tuple[Thing, ...]:
        """Lists the repositories that cloudgan made, in all regions.

        Who never built an image may lack the right, and the project the API: no reason to hide the
        rest.
        """
        if run is not None:
            return ()
        url = f"{REGISTRY}/projects/{self._project}/locations/-/repositories"
        try:
            found = [_thing(one) for page in self._api.pages(url) for one in _of(page)]
        except SwitchedOffError:
            return ()
        except CredentialsError as error:
            self._say(f"image repositories were not looked at: {error}")
            return ()
        return tuple(one for one in found if one.shared)

    def delete(self, thing: Thing) -> None:
        """Asks for deletion, with all images that are in it."""
        try:
            self._api.send("DELETE", f"{REGISTRY}/{thing.name}", what=f"{thing.kind} {thing.name}")
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a repository as it is now."""
        body = self._api.find(f"{REGISTRY}/{thing.name}")
        return _thing(body) if body else None


def _of(page: dict[str, Any]) -> list[dict[str, Any]]:
    return list(page.get("repositories", ()))


def _thing(body: dict[str, Any]) -> Thing:
    name = str(body["name"])
    return Thing(
        kind=KIND,
        name=name,
        state="ready",
        labels=body.get("labels") or {},
        region=name.split("/")[3],
        rank=_RANK,
        made=body.get("createTime"),
        fee=FEE,
    )
