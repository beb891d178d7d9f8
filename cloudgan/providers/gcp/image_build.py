"""Builds an image by Cloud Build into Artifact Registry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.image_order import Build
from cloudgan.providers.gcp.addresses import BUILDS
from cloudgan.providers.gcp.api import GoogleApi
from cloudgan.providers.gcp.ground import PROJECT
from cloudgan.providers.gcp.image_requests import LOGS, build_step, repository_step
from cloudgan.providers.gcp.login import Login
from cloudgan.providers.gcp.refusal import TakenError
from cloudgan.stores import ObjectMissingError, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.image_order import ImageOrder
    from cloudgan.core.plan import Place
    from cloudgan.stores import Store

_RUNNING = frozenset({"STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING"})
_MADE_SECONDS = 120.0


class GcpImageBuilder:
    """Fulfils `launching.image_building.ImageBuilder`.

    Args:
        api: Logged in.
        account: The project.
        store: Opens the bucket of a URL.
        pause_seconds: Between two looks whether the registry is there.
    """

    def __init__(
        self,
        api: GoogleApi,
        account: str,
        *,
        store: Callable[[str], Store] = open_store,
        pause_seconds: float = 2.0,
    ) -> None:
        self._api, self.account = api, account
        self._open, self._pause_seconds = store, pause_seconds

    @classmethod
    def open(cls, place: Place) -> GcpImageBuilder:
        """Opens a project with the login that google-auth finds.

        Raises:
            CredentialsError: There is no login, or nobody says which project.
        """
        login = Login.find()
        account = place.account if place.account not in (None, PROJECT) else login.project
        if not account:
            raise CredentialsError("this login names no project of Google Cloud; give --project=ID")
        endpoint = settings.variable("CLOUDGAN_GCP_ENDPOINT")
        return cls(GoogleApi(login.session(), endpoint=endpoint), account)

    def make(self, order: ImageOrder) -> Iterator[str]:
        """Ensures the repository."""
        step = repository_step(order)
        if self._api.find(step.find or "") is not None:
            return
        url, _, query = step.path.partition("?")
        name, _, value = query.partition("=")
        try:
            self._api.send("POST", url, step.body, query={name: value}, what=step.ensure)
        except TakenError:
            return
        for _ in range(max(1, int(_MADE_SECONDS / max(self._pause_seconds, 1.0)))):
            if self._api.find(step.find or "") is not None:
                yield step.ensure
                return
            time.sleep(self._pause_seconds)
        raise LaunchError(f"{step.ensure} was asked for and does not appear; try again")

    def begin(self, order: ImageOrder, archive: bytes) -> str:
        """Uploads the context to the bucket and starts the build."""
        self._open(order.store).put(order.object_name("tar.gz"), archive)
        step = build_step(order)
        told = self._api.send("POST", step.path, step.body, what=step.ensure)
        found: str = told["metadata"]["build"]["id"]
        return found

    def look(self, order: ImageOrder, build: str) -> Build:
        """Returns how a build is doing."""
        path = f"{BUILDS}/projects/{order.place.account}/locations/global/builds/{build}"
        told = self._api.send("GET", path)
        status = told.get("status", "STATUS_UNKNOWN")
        log = self._log(order, build)
        if status in _RUNNING:
            return Build("running", log)
        if status != "SUCCESS":
            why = told.get("statusDetail") or (told.get("failureInfo") or {}).get("detail")
            return Build("failed", log, f"{status}: {why}" if why else status)
        images = (told.get("results") or {}).get("images") or [{}]
        return Build("done", log, digest=images[0].get("digest"))

    def _log(self, order: ImageOrder, build: str) -> str:
        try:
            content = self._open(order.store).read(f"{LOGS}/log-{build}.txt")
        except ObjectMissingError:
            return ""
        return content.decode(errors="replace")
