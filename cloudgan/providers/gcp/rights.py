"""What a login may do in a project, and whether the project is prepared: asked, never tried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cloudgan import assets
from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.core.thing import Finding
from cloudgan.providers.gcp.addresses import (
    IAM,
    NODES_ACCOUNT,
    PROJECTS,
    TRAINER_ACCOUNT,
    account_email,
)
from cloudgan.providers.gcp.identities import api_states
from cloudgan.providers.gcp.setup_requests import APIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.providers.gcp.api import GoogleApi

ACT_AS = "iam.serviceAccounts.actAs"
_AT_ONCE = 100
_SET_UP = "type: cloudgan setup --provider=gcp"


def permissions() -> tuple[str, ...]:
    """Returns what deploy/gcp/policy.yaml lists: all that a launcher needs in a project."""
    role: dict[str, Any] = yaml.safe_load(assets.read_text("deploy/gcp/policy.yaml"))
    return tuple(role["includedPermissions"])


def rights_findings(api: GoogleApi, project: str) -> Iterator[Finding]:
    """Yields whether APIs are on, rights there, and `setup` was done."""
    yield _apis(api, project)
    yield _rights(api, project)
    for name in (NODES_ACCOUNT, TRAINER_ACCOUNT):
        yield account_finding(api, project, name)


def _apis(api: GoogleApi, project: str) -> Finding:
    try:
        off = [name for name, is_on in api_states(api, project, APIS).items() if not is_on]
    except CloudganError as error:
        return Finding("APIs", "unknown", str(error))
    if off:
        how = f"{_SET_UP}, or: gcloud services enable {' '.join(off)}"
        return Finding("APIs", "missing", f"switched off in {project}: {', '.join(off)}; {how}")
    return Finding("APIs", "ok", "all are on")


def _rights(api: GoogleApi, project: str) -> Finding:
    wanted, granted = permissions(), set()
    for first in range(0, len(wanted), _AT_ONCE):
        body = {"permissions": wanted[first : first + _AT_ONCE]}
        url = f"{PROJECTS}/projects/{project}:testIamPermissions"
        granted |= set(api.send("POST", url, body).get("permissions", ()))
    lacking = [one for one in wanted if one not in granted]
    if lacking:
        says = (
            f"this login lacks {', '.join(lacking)}; who owns the project grants the role of"
            " deploy/gcp/policy.yaml"
        )
        return Finding("rights", "missing", says)
    return Finding("rights", "ok", f"all {len(wanted)} are there")


def account_finding(api: GoogleApi, project: str, name: str) -> Finding:
    """Returns whether a service account is there and, if machines have it, may be given to them."""
    subject, email = f"service account {name}", account_email(name, project)
    url = f"{IAM}/projects/{project}/serviceAccounts/{email}"
    try:
        found = api.find(url)
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    if found is None:
        return Finding(subject, "missing", f"it is not there; {_SET_UP}")
    if name == TRAINER_ACCOUNT:
        return Finding(subject, "ok", "it is there")
    granted = api.send("POST", f"{url}:testIamPermissions", {"permissions": [ACT_AS]})
    if ACT_AS in granted.get("permissions", ()):
        return Finding(subject, "ok", "it is there, and this login may give it to machines")
    how = f"gcloud iam service-accounts add-iam-policy-binding {email}"
    return Finding(
        subject,
        "missing",
        f"this login lacks {ACT_AS} on it; {how} --role=roles/iam.serviceAccountUser --member=YOU",
    )
