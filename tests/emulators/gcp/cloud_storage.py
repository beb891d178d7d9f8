"""Cloud Storage buckets; another server holds their objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulators.gcp.iam_policies import replaced, shown
from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route

Object = dict[str, Any]
NUMBER = "123456789"


class CloudStorage:
    """All existing buckets.

    Attributes:
        buckets: By name.
        policies: Of buckets, by name.
        made: Receives the name of each new bucket.
    """

    def __init__(self, server: GoogleServer) -> None:
        self._server = server
        self.buckets: dict[str, Object] = {}
        self.policies: dict[str, Object] = {}
        self.made: Callable[[str], None] = lambda name: None
        handlers = {
            "insert": (self._insert, "create"),
            "get": (self._bucket, "get"),
            "list": (self._list, "list"),
            "delete": (self._delete, "delete"),
            "getIamPolicy": (self._policy, "getIamPolicy"),
            "setIamPolicy": (self._set_policy, "setIamPolicy"),
        }
        server.add(
            {
                f"storage.buckets.{name}": Route(handler, (f"storage.buckets.{right}",))
                for name, (handler, right) in handlers.items()
            }
        )

    def add_bucket_of_another_project(self, name: str) -> None:
        """Adds a bucket of this name that belongs to another project."""
        self.buckets[name] = {"name": name, "projectNumber": "987654321", "location": "US"}

    def _insert(self, call: Call) -> Object:
        name = call.body["name"]
        if name in self.buckets:
            raise Refusal(409, "Your previous request to create the named bucket succeeded.")
        made = call.body | {
            "projectNumber": NUMBER,
            "timeCreated": self._server.moment(),
        }
        self.buckets[name] = made
        self.policies[name] = {"etag": "CAE=", "bindings": []}
        self.made(name)
        return made

    def _bucket(self, call: Call) -> Object:
        found = self.buckets.get(call.path["bucket"])
        if found is None:
            raise Refusal(404, "The specified bucket does not exist.")
        return found

    def _list(self, call: Call) -> Object:
        prefix = call.query.get("prefix", "")
        mine = [one for one in self.buckets.values() if one["projectNumber"] == NUMBER]
        return {"items": [one for one in mine if one["name"].startswith(prefix)]}

    def _delete(self, call: Call) -> Object:
        del self.buckets[self._bucket(call)["name"]]
        return {}

    def _policy(self, call: Call) -> Object:
        version = int(call.query.get("optionsRequestedPolicyVersion", 1))
        return shown(self.policies[self._bucket(call)["name"]], version, refuses=True)

    def _set_policy(self, call: Call) -> Object:
        name = self._bucket(call)["name"]
        self.policies[name] = replaced(self.policies[name], call.body)
        return self.policies[name]
