"""Reads kubeconfigs and creates API clients that renew their tokens."""

from __future__ import annotations

import importlib
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from cloudgan.core import settings
from cloudgan.core.documents import read_yaml, validated
from cloudgan.core.errors import (
    ConfigError,
    CredentialsError,
    UnknownNameError,
    install_command,
    shorten,
)

ApiClient = Any
"""kubernetes.client.ApiClient: it has no types, and a base installation lacks it."""

_KNOWN_PLUGINS = {
    "gke-gcloud-auth-plugin": "run: gcloud components install gke-gcloud-auth-plugin",
    "aws": "run: pip install awscli",
    "aws-iam-authenticator": "see https://docs.aws.amazon.com/eks/latest/userguide/install-aws-iam-authenticator.html",
    "kubelogin": "run: az aks install-cli",
}


class KubeContext(NamedTuple):
    """The parts of a kubeconfig context that a plan may show.

    Attributes:
        namespace: Default namespace; None if the context sets none.
    """

    name: str
    server: str
    namespace: str | None


def find_context(name: str | None) -> KubeContext:
    """Returns a context of the kubeconfig, by default the current one, without sending a request."""
    return _find(name)[0]


class _Part(BaseModel):
    # As kubectl: an unknown field is ignored, a field of another type is an error.
    model_config = ConfigDict(frozen=True, strict=True)


class _Plugin(_Part):
    command: str = Field(min_length=1)
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    api_version: str = Field("", alias="apiVersion")
    install_hint: str | None = Field(None, alias="installHint")


class _User(_Part):
    token: str | None = None
    token_file: str | None = Field(None, alias="tokenFile")
    username: str | None = None
    password: str | None = None
    certificate: str | None = Field(None, alias="client-certificate")
    certificate_data: str | None = Field(None, alias="client-certificate-data")
    key: str | None = Field(None, alias="client-key")
    key_data: str | None = Field(None, alias="client-key-data")
    plugin: _Plugin | None = Field(None, alias="exec")


class _Cluster(_Part):
    server: str | None = None
    ca: str | None = Field(None, alias="certificate-authority")
    ca_data: str | None = Field(None, alias="certificate-authority-data")
    insecure: bool | None = Field(None, alias="insecure-skip-tls-verify")
    tls_server_name: str | None = Field(None, alias="tls-server-name")
    proxy_url: str | None = Field(None, alias="proxy-url")


class _Context(_Part):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _Kubeconfig(_Part):
    """The fields of a kubeconfig that cloudgan or the Kubernetes client reads.

    Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ (2026-11-22).
    """

    current_context: str | None = Field(None, alias="current-context")
    contexts: dict[str, _Context] = {}
    clusters: dict[str, _Cluster] = {}
    users: dict[str, _User] = {}

    @field_validator("contexts", "clusters", "users", mode="before")
    @classmethod
    def _by_name(cls, listed: Any, info: ValidationInfo) -> dict[str, Any]:
        """Returns the entries of a list by name; of several with one name the first counts."""
        kind = (info.field_name or "").removesuffix("s")
        found: dict[str, Any] = {}
        if listed is not None and not isinstance(listed, list):
            raise ValueError("must be a list of entries with a name")
        for one in listed or ():
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or not name:
                raise ValueError("must be a list of entries with a name")
            inner = one.get(kind)
            found.setdefault(name, {} if inner is None else inner)
        return found


def _find(name: str | None) -> tuple[KubeContext, str, _Plugin | None]:
    """Returns a context, the paths of the kubeconfig, and the credential plugin."""
    files, known = _kubeconfig()
    name = name or known.current_context
    if not name:
        raise ConfigError(
            f"{files} has no current context; give --context=NAME. Valid:"
            f" {', '.join(sorted(known.contexts)) or 'none'}"
        )
    if name not in known.contexts:
        raise UnknownNameError(f"context of {files}", name, known.contexts)
    context = known.contexts[name]
    user = known.users.get(context.user or "")
    plugin = user.plugin if user else None
    if plugin and not shutil.which(plugin.command):
        how = _KNOWN_PLUGINS.get(Path(plugin.command).name)
        hint = (plugin.install_hint or "").strip().splitlines()
        next_step = f"; {how}" if how else f"; {hint[0]}" if hint else ""
        raise CredentialsError(
            f"the credential plugin {plugin.command!r} of context {name!r} is not on the PATH{next_step}"
        )
    cluster = known.clusters.get(context.cluster or "")
    server = (cluster and cluster.server) or ""
    if not server:
        raise ConfigError(f"context {name!r} of {files} has no cluster with a server URL")
    if set(server) & set("@?#"):
        raise ConfigError(
            f"cluster {context.cluster!r} of {files}: the server URL may contain a login or a token, which"
            " plans and messages would show; write https://HOST:PORT/PATH, and the login as an entry of"
            " users (`kubectl config set-credentials`)"
        )
    return KubeContext(name, server, context.namespace), files, plugin


def connect(context: str | None) -> ApiClient:
    """Returns a client for a context; it renews expired tokens."""
    found, files, plugin = _find(context)
    config: Any = _library("kubernetes.config")
    try:
        client: ApiClient = config.new_client_from_config(config_file=files, context=found.name)
    except (config.ConfigException, OSError, ValueError) as error:
        # ValueError: a certificate that is not base64; OSError: one that OpenSSL does not read.
        raise ConfigError(f"{files}: {shorten(str(error), 300)}") from error
    # The client itself only logs it.
    if plugin and not (client.configuration.api_key or client.configuration.cert_file):
        raise CredentialsError(
            f"the credential plugin {plugin.command!r} of context {found.name!r} in {files} returned no"
            f" token; run {plugin.command!r} to see the reason"
        )
    return client


def connect_by_token(server: str, ca_pem: str | None, token: Callable[[], str]) -> ApiClient:
    """Returns a client that asks for a valid bearer token for each request; without `ca_pem` the CA is public.

    A LaunchError of `token` is retried as a cluster that does not answer, a CredentialsError is raised.
    """
    client: Any = _library("kubernetes.client")
    configuration = client.Configuration(host=server)
    # Not ssl_ca_cert, which would need a file that outlives this process.
    if ca_pem is not None:
        configuration.ca_cert_data = ca_pem

    def renew(config: Any) -> None:
        config.api_key["authorization"] = f"Bearer {token()}"

    configuration.refresh_api_key_hook = renew
    renew(configuration)
    api_client: ApiClient = client.ApiClient(configuration)
    return api_client


def connect_by_certificate(
    server: str, ca_pem: str, certificate_pem: str, key_pem: str
) -> ApiClient:
    """Returns a client with a client certificate.

    The key is in a file, readable by this user only, while it is loaded.
    """
    client: Any = _library("kubernetes.client")
    context = ssl.create_default_context(cadata=ca_pem)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "login.pem"
        path.touch(mode=0o600)
        path.write_text(f"{certificate_pem}\n{key_pem}", encoding="ascii")
        context.load_cert_chain(path)
    api_client: ApiClient = client.ApiClient(client.Configuration(host=server))
    api_client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = context
    return api_client


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"the Kubernetes client is not installed; run {install_command('kubernetes')}"
        ) from error


def _kubeconfig() -> tuple[str, _Kubeconfig]:
    """Returns the kubeconfig paths, joined as the client expects, and their merged content.

    The first file that defines a name takes precedence, as for kubectl.
    """
    files = settings.kubeconfig()
    paths = [Path(name) for name in files.split(os.pathsep) if name]
    read = [
        validated(
            _Kubeconfig,
            read_yaml(path, secret=True),
            f"kubeconfig {path}",
            ConfigError,
            secret=True,
        )
        for path in paths
        if path.exists()
    ]
    if not read:
        raise ConfigError(
            f"no kubeconfig at {files}; set KUBECONFIG, or train on this machine with"
            " --provider=local"
        )
    known = read[-1]
    for content in reversed(read[:-1]):
        known = known.model_copy(
            update={
                "current_context": content.current_context or known.current_context,
                "contexts": known.contexts | content.contexts,
                "clusters": known.clusters | content.clusters,
                "users": known.users | content.users,
            }
        )
    return files, known
