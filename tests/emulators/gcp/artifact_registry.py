"""Artifact Registry: repositories and their operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Route

if TYPE_CHECKING:
    from emulators.gcp.server import Call, GoogleServer

Object = dict[str, Any]
_REPOSITORIES = "artifactregistry.projects.locations.repositories"


class ArtifactRegistry:
    """The repositories of one project.

    Attributes:
        repositories: By their full names.
    """

    def __init__(self, server: GoogleServer) -> None:
        self._server = server
        self.repositories: dict[str, Object] = {}
        handlers = {
            "create": self._create,
            "get": self._get,
            "list": self._list,
            "delete": self._delete,
        }
        server.add(
            {
                f"{_REPOSITORIES}.{name}": Route(one, (f"artifactregistry.repositories.{name}",))
                for name, one in handlers.items()
            }
        )

    def add(self, name: str, labels: dict[str, str], region: str = "us-central1") -> str:
        """Adds a repository without an operation; returns its full name."""
        full = f"projects/lab/locations/{region}/repositories/{name}"
        self.repositories[full] = {"name": full, "format": "DOCKER", "labels": labels}
        return full

    def _create(self, call: Call) -> Object:
        region = call.path["locationsId"]
        name = f"projects/lab/locations/{region}/repositories/{call.query['repositoryId']}"
        if name in self.repositories:
            raise Refusal(409, "the repository already exists")
        self.repositories[name] = call.body | {"name": name, "createTime": self._server.moment()}
        return {"name": f"projects/lab/locations/{region}/operations/1", "done": False}

    def _get(self, call: Call) -> Object:
        return self.repositories[self._name(call)]

    def _list(self, call: Call) -> Object:
        region = call.path["locationsId"]
        found = [
            one for name, one in self.repositories.items() if region in ("-", name.split("/")[3])
        ]
        return {"repositories": found} if found else {}

    def _delete(self, call: Call) -> Object:
        del self.repositories[self._name(call)]
        return {"name": f"projects/lab/locations/{call.path['locationsId']}/operations/2"}

    def _name(self, call: Call) -> str:
        where, short = call.path["locationsId"], call.path["repositoriesId"]
        name = f"projects/lab/locations/{where}/repositories/{short}"
        if name not in self.repositories:
            raise Refusal(404, f"{name} was not found")
        return name
