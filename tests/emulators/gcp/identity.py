"""Service accounts, IAM policies and enabled APIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulators.gcp.cloud_storage import NUMBER
from emulators.gcp.iam_policies import replaced, shown
from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route

Object = dict[str, Any]
_ACCOUNTS = "iam.projects.serviceAccounts"


class Identity:
    """Service accounts, policies and APIs of one project.

    Attributes:
        accounts: E-mail addresses of its service accounts.
        policies: By what they are of: an e-mail address, or ``project``.
        apis_off: Hosts of disabled APIs.
        enabling_ticks: How long the operation takes that enables APIs.
        enabling_error: Why that operation fails; empty: it succeeds.
        settling_ticks: How long APIs that were enabled still refuse requests.
        lacking: Permissions that the login has not, when it asks what it has.
        has_pool: Whether the project has an identity pool for its clusters.
    """

    def __init__(self, server: GoogleServer) -> None:
        self._server = server
        self.accounts: dict[str, int] = {}
        self.policies: dict[str, Object] = {"project": {"etag": "BwY=", "bindings": []}}
        self.apis_off: set[str] = set()
        self.enabling_ticks, self.settling_ticks = 0, 0
        self.enabling_error = ""
        self._settling: set[str] = set()
        self._operations: dict[str, Object] = {}
        server.refuses = lambda host: host in self.apis_off | self._settling
        self.lacking: set[str] = set()
        self.has_pool: Callable[[], bool] = lambda: False
        server.add(_of_accounts(self) | _of_project(self))

    def add_account(self, name: str, project: str = "lab") -> str:
        email = f"{name}@{project}.iam.gserviceaccount.com"
        self.accounts[email] = self._server.ticks
        self.policies[email] = {"etag": "BwX=", "bindings": []}
        return email

    def create(self, call: Call) -> Object:
        name = call.body["accountId"]
        email = f"{name}@{call.path['projectsId']}.iam.gserviceaccount.com"
        if email in self.accounts:
            raise Refusal(409, f"Service account {name} already exists within project.")
        return self._shown(self.add_account(name, call.path["projectsId"]))

    def get(self, call: Call) -> Object:
        return self._shown(self._known(call.path["serviceAccountsId"]))

    def list(self, call: Call) -> Object:
        return {"accounts": [self._shown(email) for email in self.accounts]}

    def delete(self, call: Call) -> Object:
        del self.accounts[self._known(call.path["serviceAccountsId"])]
        return {}

    def policy(self, call: Call) -> Object:
        in_body = call.body.get("options", {}).get("requestedPolicyVersion", 1)
        version = int(call.query.get("options.requestedPolicyVersion", in_body))
        return shown(self.policies[self._of(call)], version)

    def set_policy(self, call: Call) -> Object:
        policy, of = call.body["policy"], self._of(call)
        made = replaced(self.policies[of], policy)
        for binding in policy.get("bindings", ()):
            for member in binding["members"]:
                self._refuse_missing_pool(member)
                email = member.removeprefix("serviceAccount:")
                if member != email and "[" not in email:
                    self._known(email, code=400)
        self.policies[of] = made
        return made

    def _refuse_missing_pool(self, member: str) -> None:
        """GKE creates the pool with the first cluster that has workload identity.

        https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916 and
        https://github.com/jenkins-x/jx/issues/7627 (read 2026-11-22).
        """
        pool = member.removeprefix("serviceAccount:").partition("[")[0]
        if pool.endswith(".svc.id.goog") and not self.has_pool():
            raise Refusal(400, f"Identity Pool does not exist ({pool}).")

    def granted(self, call: Call) -> Object:
        return {"permissions": [p for p in call.body["permissions"] if p not in self.lacking]}

    def project(self, call: Call) -> Object:
        return {"name": f"projects/{NUMBER}", "projectId": call.path["projectsId"]}

    def services(self, call: Call) -> Object:
        names = call.query["names"].split(",")
        off = {one for one in names if one.rpartition("/")[2] in self.apis_off}
        return {
            "services": [
                {"name": one, "state": "DISABLED" if one in off else "ENABLED"} for one in names
            ]
        }

    def enable(self, call: Call) -> Object:
        """The operation runs for a while, and an enabled API refuses requests for a while longer.

        https://github.com/hashicorp/terraform-provider-google/issues/2129 and, for the refusal of a
        second request, https://github.com/terraform-google-modules/terraform-google-project-factory/issues/461
        (read 2026-11-22).
        """
        if any(not one.get("done") for one in self._operations.values()):
            raise Refusal(
                400,
                "Another activation or deactivation is in progress for the following service(s):"
                f" {', '.join(call.body['serviceIds'])} and project lab.",
                "FAILED_PRECONDITION",
            )
        name = f"operations/acf.{len(self._operations) + 1}"
        self._operations[name] = {"name": name}
        self._server.later(
            self.enabling_ticks, lambda: self._enabled(name, set(call.body["serviceIds"]))
        )
        return dict(self._operations[name])

    def operation(self, call: Call) -> Object:
        name = f"operations/{call.path['operationsId']}"
        if name not in self._operations:
            raise Refusal(404, f"Operation {name} not found.")
        return self._operations[name]

    def _enabled(self, name: str, hosts: set[str]) -> None:
        if self.enabling_error:
            error = {"code": 9, "message": self.enabling_error}
            self._operations[name] = {"name": name, "done": True, "error": error}
            return
        self._settling |= hosts & self.apis_off
        self.apis_off -= hosts
        self._server.later(self.settling_ticks, lambda: self._settling.difference_update(hosts))
        self._operations[name] = {"name": name, "done": True, "response": {}}

    def _of(self, call: Call) -> str:
        email = call.path.get("serviceAccountsId")
        return self._known(email) if email else "project"

    def _known(self, email: str, code: int = 404) -> str:
        made = self.accounts.get(email)
        if made is None or not self._server.is_shown(made):
            raise Refusal(code, f"Service account {email} does not exist.")
        return email

    def _shown(self, email: str) -> Object:
        return {"name": f"projects/lab/serviceAccounts/{email}", "email": email}


def _of_accounts(identity: Identity) -> dict[str, Route]:
    handlers = {
        "create": identity.create,
        "get": identity.get,
        "list": identity.list,
        "delete": identity.delete,
        "getIamPolicy": identity.policy,
        "setIamPolicy": identity.set_policy,
    }
    routes = {
        f"{_ACCOUNTS}.{name}": Route(handler, (f"iam.serviceAccounts.{name}",))
        for name, handler in handlers.items()
    }
    return routes | {f"{_ACCOUNTS}.testIamPermissions": Route(identity.granted)}


def _of_project(identity: Identity) -> dict[str, Route]:
    projects = "cloudresourcemanager.projects"
    rights = "resourcemanager.projects"
    return {
        f"{projects}.get": Route(identity.project, (f"{rights}.get",)),
        f"{projects}.getIamPolicy": Route(identity.policy, (f"{rights}.getIamPolicy",)),
        f"{projects}.setIamPolicy": Route(identity.set_policy, (f"{rights}.setIamPolicy",)),
        f"{projects}.testIamPermissions": Route(identity.granted),
        "serviceusage.services.batchGet": Route(identity.services, ("serviceusage.services.get",)),
        "serviceusage.operations.get": Route(identity.operation, ("serviceusage.operations.get",)),
        "serviceusage.services.batchEnable": Route(
            identity.enable, ("serviceusage.services.enable",)
        ),
    }
