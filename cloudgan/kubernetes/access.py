"""From a kubeconfig and a context to a client that renews its token by itself."""

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
    "gke-gcloud-auth-plugin": "type: gcloud components install gke-gcloud-auth-plugin",
    "aws": "type: pip install awscli",
    "aws-iam-authenticator": "see https://docs.aws.amazon.com/eks/latest/userguide/install-aws-iam-authenticator.html",
    "kubelogin": "type: az aks install-cli",
}


class Context(NamedTuple):
    """A context of a kubeconfig, as far as a plan may show it.

    Attributes:
        name: Of the context.
        server: Address of the cluster's API.
        namespace: That it names; None where it names none.
    """

    name: str
    server: str
    namespace: str | None


def find_context(name: str | None) -> Context:
    """Looks a context up in the kubeconfig, without speaking to the cluster.

    Args:
        name: Of the context; None takes the current one.

    Raises:
        ConfigError: There is no kubeconfig, or it names no current context.
        UnknownNameError: It has no such context.
        CredentialsError: It logs in by a program that is not installed.
    """
    return _find(*_kubeconfig(), name)


def _find(files: str, content: dict[str, Any], name: str | None) -> Context:
    contexts = content["contexts"]
    name = name or content["current-context"]
    if not name:
        raise ConfigError(
            f"{files} names no current context; give --context=NAME. Known:"
            f" {', '.join(sorted(contexts)) or 'none'}"
        )
    if name not in contexts:
        raise UnknownNameError(f"context of {files}", name, contexts)
    context = contexts[name]
    _check_plugin(content["users"].get(context.get("user"), {}), name)
    server = _address(content["clusters"].get(context.get("cluster"), {}).get("server") or "")
    if not server:
        raise ConfigError(f"context {name!r} of {files} names no cluster with an address")
    return Context(name, server, context.get("namespace"))


def connect(context: str | None) -> ApiClient:
    """Makes a client for a context; its token is renewed when it expires.

    Raises:
        ConfigError: The kubeconfig cannot be used, or the client is not installed.
        CredentialsError: Its login gave no token.
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
    """Makes a client for a cluster that a cloud tells of; nothing is written to a kubeconfig.

    Args:
        server: Address of its API.
        ca_pem: Certificate of its authority; None: a public one signed it.
        token: Returns one that is valid now, a new one where the last expires; asked for each request.

    Raises:
        ConfigError: The client is not installed.
    """
    client: Any = _library("kubernetes.client")
    configuration = client.Configuration(host=server)
    # Not ssl_ca_cert: a file of ours would outlive us.
    if ca_pem is not None:
        configuration.ca_cert_data = ca_pem

    def renew(config: Any) -> None:
        config.api_key["authorization"] = f"Bearer {token()}"

    configuration.refresh_api_key_hook = renew
    renew(configuration)
    made: ApiClient = client.ApiClient(configuration)
    return made


def connect_by_certificate(
    server: str, ca_pem: str, certificate_pem: str, key_pem: str
) -> ApiClient:
    """Makes a client for a cluster that knows its users by certificates.

    The key is in a file for as long as it takes to read it, and only this user can.

    Args:
        server: Address of its API.
        ca_pem: Certificate of its authority.
        certificate_pem: The user's.
        key_pem: That belongs to it.

    Raises:
        ConfigError: The client is not installed.
    """
    client: Any = _library("kubernetes.client")
    context = ssl.create_default_context(cadata=ca_pem)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "login.pem"
        path.touch(mode=0o600)
        path.write_text(f"{certificate_pem}\n{key_pem}", encoding="ascii")
        context.load_cert_chain(path)
    made: ApiClient = client.ApiClient(client.Configuration(host=server))
    made.rest_client.pool_manager.connection_pool_kw["ssl_context"] = context
    return made


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "a cluster needs Kubernetes' client, which is not installed; type: pip install"
            " 'cloudgan[kubernetes]'"
        ) from error


def _kubeconfig() -> tuple[str, dict[str, Any]]:
    """The kubeconfig's files, parted as the client takes them, and what they say together.

    As for kubectl, the first file that says a thing counts.
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
            f"no kubeconfig at {files}; set KUBECONFIG to one, or let --provider=local train on"
            " this machine"
        )
    return files, known


def _content(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        said = getattr(error, "problem", None) or getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"kubeconfig {path}: cannot be read ({said})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"kubeconfig {path}: holds no clusters and contexts")
    return content


def _named(path: Path, content: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """What a kubeconfig lists as clusters, contexts or users, by name."""
    found: dict[str, dict[str, Any]] = {}
    listed = content.get(kind) or []
    for one in listed if isinstance(listed, list) else (None,):
        named = one if isinstance(one, dict) else {}
        inner = named.get(kind.removesuffix("s")) or {}
        if not isinstance(inner, dict) or not named.get("name"):
            raise ConfigError(f"kubeconfig {path}: its {kind} are no list of things with a name")
        found.setdefault(str(named["name"]), inner)
    return found


def _address(server: str) -> str:
    """Without the login that an address may hold: a plan shows it."""
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
    type_next = f"; {how}" if how else f"; {hint[0]}" if hint else ""
    raise CredentialsError(
        f"context {context!r} logs in by the program {command!r}, which is not on the PATH"
        f"{type_next}"
    )


def _check_login(client: ApiClient, context: str, files: str, content: dict[str, Any]) -> None:
    """The client only logs what a plugin did wrong, and would go on without a login."""
    user = content["users"].get(content["contexts"][context].get("user"), {})
    plugin = (user.get("exec") or {}).get("command")
    configuration = client.configuration
    if plugin and not (configuration.api_key or configuration.cert_file):
        raise CredentialsError(
            f"{plugin!r}, by which context {context!r} of {files} logs in, gave no token; run it"
            " yourself to see why"
        )
