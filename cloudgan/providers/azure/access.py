"""From an AKS cluster to its API: nothing is written to a kubeconfig."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import yaml

from cloudgan.core.errors import LaunchError
from cloudgan.kubernetes.access import connect_by_certificate, connect_by_token

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from cloudgan.providers.azure.api import ArmApi

# The application that every AKS cluster with Entra logins is to its users
# (https://learn.microsoft.com/azure/aks/kubelogin-authentication, read 2026-11-21).
_AKS_SCOPE: Final = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"


def connect(api: ArmApi, cluster: str, version: str) -> ApiClient:
    """Makes a client by what AKS gives this user: a certificate, a token, or a login by Entra.

    Args:
        api: Of the Resource Manager.
        cluster: The cluster's address there.
        version: By which it is asked.

    Raises:
        LaunchError: AKS gave nothing of that kind.
    """
    found = api.send("POST", f"{cluster}/listClusterUserCredential?api-version={version}")
    configs = found.get("kubeconfigs") or ()
    if not configs:
        raise LaunchError(f"AKS gave no login for {cluster.rpartition('/')[2]}")
    config: dict[str, Any] = yaml.safe_load(base64.b64decode(configs[0]["value"]))
    there, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    server, authority = there["server"], _pem(there["certificate-authority-data"])
    if "client-certificate-data" in user:
        certificate, key = _pem(user["client-certificate-data"]), _pem(user["client-key-data"])
        return connect_by_certificate(server, authority, certificate, key)
    if "token" in user:
        return connect_by_token(server, authority, lambda: str(user["token"]))
    return connect_by_token(server, authority, lambda: api.token(_AKS_SCOPE))


def _pem(text: str) -> str:
    return base64.b64decode(text).decode("ascii")
