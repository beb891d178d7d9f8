"""Cloud Build as an image builder, and the image repositories in Artifact Registry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.gcp.addresses import BUILDS, REGISTRY
from cloudgan.launch.clouds.gcp.error_mapping import DisabledApiError, TakenError
from cloudgan.launch.clouds.gcp.image_requests import LOGS, build_step, repository_step
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.schema.image_order import Build
from cloudgan.schema.resource import Listing, Resource
from cloudgan.storage.store import ObjectMissingError, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.image_order import ImageBuildRequest
    from cloudgan.schema.plan import Target
    from cloudgan.storage.store import Store

KIND = "image repository"
FEE = "Artifact Registry"
_RANK = 60
_RUNNING = frozenset({"STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING"})
_CREATED_SECONDS = 120.0


class GcpImageBuilder:
    """Builds images by Cloud Build; implements `ImageBuilder`.

    Args:
        api: Google's APIs.
        account: Project ID.
        store: Opens the bucket of a URL.
        pause_seconds: Interval between two checks for the new repository.
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
    def open(cls, target: Target) -> GcpImageBuilder:
        """Opens a project with the application default credentials.

        Raises:
            CredentialsError: There is no login, or no project.
        """
        login = Login.find()
        return cls(login.api(), login.project_for(target.account))

    def prepare(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the repository; Cloud Build needs no more."""
        yield from self.prepare_registry(order)

    def prepare_registry(self, order: ImageBuildRequest) -> Iterator[str]:
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
        for _ in range(max(1, int(_CREATED_SECONDS / max(self._pause_seconds, 1.0)))):
            if self._api.find(step.find or "") is not None:
                yield step.ensure
                return
            time.sleep(self._pause_seconds)
        raise LaunchError(f"{step.ensure} does not appear after its creation; rerun the command")

    def start(self, order: ImageBuildRequest, archive: bytes) -> str:
        """Uploads the context to the bucket and starts the build."""
        self._open(order.store).put(order.object_name("tar.gz"), archive)
        step = build_step(order)
        answer = self._api.send("POST", step.path, step.body, what=step.ensure)
        found: str = answer["metadata"]["build"]["id"]
        return found

    def poll(self, order: ImageBuildRequest, build: str) -> Build:
        """Returns the state of a build."""
        path = f"{BUILDS}/projects/{order.target.account}/locations/global/builds/{build}"
        answer = self._api.send("GET", path)
        status = answer.get("status", "STATUS_UNKNOWN")
        log = self._log(order, build)
        if status in _RUNNING:
            return Build("running", log)
        if status != "SUCCESS":
            why = answer.get("statusDetail") or (answer.get("failureInfo") or {}).get("detail")
            return Build("failed", log, f"{status}: {why}" if why else status)
        images = (answer.get("results") or {}).get("images") or [{}]
        return Build("done", log, digest=images[0].get("digest"))

    def _log(self, order: ImageBuildRequest, build: str) -> str:
        try:
            content = self._open(order.store).read(f"{LOGS}/log-{build}.txt")
        except ObjectMissingError:
            return ""
        return content.decode(errors="replace")


class ImageRepositories:
    """The repositories that `cloudgan image` created in Artifact Registry.

    `locations/-` lists all regions, as public repositories use it; Google does not document it.

    Args:
        api: Google's APIs.
        project: Project ID.
        say: Receives the reason if the list is unavailable.
    """

    kinds = (KIND,)

    def __init__(
        self, api: GoogleApi, project: str, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._api, self._project, self._say = api, project, say

    def list_resources(self, run: str | None) -> Listing:
        """Lists the repositories in all regions; a missing permission or API yields none."""
        if run is not None:
            return Listing()
        url = f"{REGISTRY}/projects/{self._project}/locations/-/repositories"
        try:
            found = [
                _repository(one)
                for page in self._api.pages(url)
                for one in page.get("repositories", ())
            ]
        except DisabledApiError:
            return Listing()
        except CredentialsError as error:
            self._say(f"cannot list image repositories: {error}")
            return Listing()
        return Listing(one for one in found if one.shared)

    def delete(self, resource: Resource) -> None:
        """Requests deletion of a repository with all its images."""
        self._api.delete(f"{REGISTRY}/{resource.name}", f"{resource.kind} {resource.name}")

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a repository."""
        body = self._api.find(f"{REGISTRY}/{resource.name}")
        return _repository(body) if body else None


def _repository(body: dict[str, Any]) -> Resource:
    name = str(body["name"])
    return Resource(
        kind=KIND,
        name=name,
        state="ready",
        labels=body.get("labels") or {},
        region=name.split("/")[3],
        deletion_order=_RANK,
        created_at=body.get("createTime"),
        fee=FEE,
    )
