"""Reads kubeconfigs and creates API clients that renew their tokens."""

from __future__ import annotations

import importlib
import shutil
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

_KNOWN_PLUGINS = {
    "gke-gcloud-auth-plugin": "run: gcloud components install gke-gcloud-auth-plugin",
    "aws": "run: pip install awscli",
    "aws-iam-authenticator": "see https://docs.aws.amazon.com/eks/latest/userguide/install-aws-iam-authenticator.html",
    "kubelogin": "run: az aks install-cli",
}


class KubeContext(NamedTuple):
    """The parts of a kubeconfig context that a plan may show.

    Attributes:
        name: Name of the context.
        server: URL of the cluster's API.
        namespace: Default namespace; None if the context sets none.
    """

    name: str
    server: str
    namespace: str | None


def find_context(name: str | None) -> KubeContext:
    """Returns a context of the kubeconfig without sending a request.

    Args:
        name: Name of the context; None selects the current one.

    Raises:
        ConfigError: There is no kubeconfig, or it has no current context.
        UnknownNameError: The context does not exist.
        CredentialsError: Its credential plugin is not installed.
    """
    return _find(*_kubeconfig(), name)


def _find(files: str, content: dict[str, Any], name: str | None) -> KubeContext:
    contexts = content["contexts"]
    name = name or content["current-context"]
    if not name:
        raise ConfigError(
            f"{files} has no current context; give --context=NAME. Valid:"
            f" {', '.join(sorted(contexts)) or 'none'}"
        )
    if name not in contexts:
        raise UnknownNameError(f"context of {files}", name, contexts)
    context = contexts[name]
    _check_plugin(content["users"].get(context.get("user"), {}), name)
    server = _address(content["clusters"].get(context.get("cluster"), {}).get("server") or "")
    if not server:
        raise ConfigError(f"context {name!r} of {files} has no cluster with a server URL")
    return KubeContext(name, server, context.get("namespace"))


def connect(context: str | None) -> ApiClient:
    """Returns a client for a context; it renews expired tokens.

    Raises:
        ConfigError: The kubeconfig is invalid, or the client library is not installed.
        CredentialsError: The credential plugin returned no token.
    """
    files, content = _kubeconfig()
    found = _find(files, content, context)
    config: Any = _library("kubernetes.config")
    try:
        client: ApiClient = config.new_client_from_config(config_file=files, context=found.name)
    except config.ConfigException as error:
        raise ConfigError(f"{files}: {error}") from error
    _check_login(client, found.name, files, content)
    return client


def connect_by_token(server: str, ca_pem: str | None, token: Callable[[], str]) -> ApiClient:
    """Returns a client with bearer tokens; writes no kubeconfig.

    Args:
        server: URL of the API.
        ca_pem: CA certificate; None for a public CA.
        token: Returns a valid token; called for each request.

    Raises:
        ConfigError: The client library is not installed.
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

    Args:
        server: URL of the API.
        ca_pem: CA certificate.
        certificate_pem: Client certificate.
        key_pem: Private key of the certificate.

    Raises:
        ConfigError: The client library is not installed.
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
            "the Kubernetes client is not installed; run: pip install 'cloudgan[kubernetes]'"
        ) from error


def _kubeconfig() -> tuple[str, dict[str, Any]]:
    """Returns the kubeconfig paths, joined as the client expects, and their merged content.

    The first file that defines a name takes precedence, as for kubectl.
    """
    files = settings.kubeconfig()
    known: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": None}
    paths = [Path(name) for name in files.split(settings.PATH_SEPARATOR) if name]
    for path in filter(Path.exists, paths):
        content = _content(path)
        known["current-context"] = known["current-context"] or content.get("current-context")
        for kind in ("contexts", "clusters", "users"):
            known[kind] = _named(path, content, kind) | known[kind]
    if not any(map(Path.exists, paths)):
        raise ConfigError(
            f"no kubeconfig at {files}; set KUBECONFIG, or train on this machine with"
            " --provider=local"
        )
    return files, known


def _content(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        reason = getattr(error, "problem", None) or getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"kubeconfig {path}: cannot be read ({reason})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"kubeconfig {path}: has no clusters and contexts")
    return content


def _named(path: Path, content: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Returns the clusters, contexts or users of a kubeconfig by name."""
    found: dict[str, dict[str, Any]] = {}
    listed = content.get(kind) or []
    for one in listed if isinstance(listed, list) else (None,):
        named = one if isinstance(one, dict) else {}
        inner = named.get(kind.removesuffix("s")) or {}
        if not isinstance(inner, dict) or not named.get("name"):
            raise ConfigError(f"kubeconfig {path}: {kind} must be a list of entries with a name")
        found.setdefault(str(named["name"]), inner)
    return found


def _address(server: str) -> str:
    """Removes credentials from a URL, because a plan shows it."""
    scheme, _, rest = str(server).partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if rest else scheme


def _check_plugin(user: dict[str, Any], context: str) -> None:
    command = (user.get("exec") or {}).get("command")
    if not command or shutil.which(command):
        return
    name = Path(command).name
    how = _KNOWN_PLUGINS.get(name)
    hint = str((user["exec"]).get("installHint") or "").strip().splitlines()
    next_step = f"; {how}" if how else f"; {hint[0]}" if hint else ""
    raise CredentialsError(
        f"the credential plugin {command!r} of context {context!r} is not on the PATH{next_step}"
    )


def _check_login(client: ApiClient, context: str, files: str, content: dict[str, Any]) -> None:
    """Raises if a plugin returned no credentials; the client itself only logs that."""
    user = content["users"].get(content["contexts"][context].get("user"), {})
    plugin = (user.get("exec") or {}).get("command")
    configuration = client.configuration
    if plugin and not (configuration.api_key or configuration.cert_file):
        raise CredentialsError(
            f"the credential plugin {plugin!r} of context {context!r} in {files} returned no"
            f" token; run {plugin!r} to see the reason"
        )
