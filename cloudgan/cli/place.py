"""From a provider's name to the provider, and from a run's name to where it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.launch_flags import REMEMBERED, Where
from cloudgan.core import plan as plans
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.labels import checked_name
from cloudgan.core.plan import CLOUDS, Place
from cloudgan.providers.clouds import BUILT_IN
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Plan
    from cloudgan.launching.provider import Provider
    from cloudgan.providers.clouds import Clouds

RUNS = Path("runs")
NAMESPACE = "cloudgan"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def open_provider(
    place: Place,
    say: Callable[[str], None] = lambda _: None,
    *,
    store: str | None = None,
    clouds: Clouds = BUILT_IN,
) -> Provider:
    """Opens the provider of a place; a cluster is not asked anything yet.

    Args:
        place: Where.
        say: Is told when something is away or waited for.
        store: Of the run, where a cloud's own is not meant.
        clouds: Those that are known.

    Raises:
        ConfigError: It needs what is not installed, or a context that is not there.
        CredentialsError: Its login is not possible.
    """
    if place.is_rented:
        from cloudgan.cli.rented_place import open_rented

        return open_rented(place, say, store, clouds)
    if place.provider == "kubernetes":
        from cloudgan.kubernetes.access import connect

        client = connect(place.context)  # says what to install where the client is not here
        from cloudgan.kubernetes.api import ClusterApi
        from cloudgan.providers.kubernetes.provider import KubernetesProvider

        api = ClusterApi(client, say=say)
        return KubernetesProvider(api, place.namespace or NAMESPACE)
    if place.provider == "slurm":
        from cloudgan.providers.slurm.commands import Commands
        from cloudgan.providers.slurm.provider import SlurmProvider

        return SlurmProvider(RUNS, Commands(say))
    from cloudgan.providers.local.provider import LocalProvider

    return LocalProvider(RUNS)


def find_place(
    provider: str | None = None, context: str | None = None, namespace: str | None = None
) -> Place:
    """Returns a place from flags; a cluster's context is looked up in the kubeconfig.

    Raises:
        ConfigError: There is no such context, or no namespace can be called so.
    """
    if provider != "kubernetes":
        return Place(provider="slurm" if provider == "slurm" else "local")
    from cloudgan.kubernetes.access import find_context

    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(
            f"--namespace={namespace} can be none: lower case letters, digits and hyphens only, 63"
            " of them at most"
        )
    found = find_context(context)
    return Place(
        provider="kubernetes",
        context=found.name,
        server=found.server,
        namespace=namespace or NAMESPACE,
    )


def find_run(
    name: str, *, say: Callable[[str], None] = lambda _: None, **where: str | None
) -> tuple[Plan, Provider]:
    """Finds a run: as flags say, else as its folder here remembers.

    Args:
        name: Of the run, or its folder.
        say: Is told when a cluster is away.
        where: It is said to be, as `where_flags` returns it; nothing: look into runs/NAME.

    Raises:
        ConfigError: No such run is known; says how to name its place.
    """
    run = checked_name(Path(name).name)
    said = Where(**where)
    remembered = RUNS / run / plans.FILE_NAME
    if said == REMEMBERED and remembered.exists():
        plan = plans.read(remembered)
        return plan, open_provider(plan.place, say, store=plan.store)
    if said == REMEMBERED:
        raise _unknown(run)
    if said.provider in CLOUDS:
        from cloudgan.cli.rented_place import find_rented

        return find_rented(run, said, say)
    _check_fit(said)
    place = find_place(said.provider or "kubernetes", said.context, said.namespace)
    opened = open_provider(place, say)
    found = opened.intent(run)
    if found is None:
        there = opened.runs()
        if there:
            raise UnknownNameError(f"run in {place.describe()}", run, there)
        raise ConfigError(f"there is no run {run} in {place.describe()}, nor any other")
    if place.provider == "slurm":
        return found, opened
    # The context that reaches the cluster from here, which may be called otherwise elsewhere.
    return found.model_copy(update={"place": place}), opened


def _unknown(run: str) -> ConfigError:
    known = [path.parent.name for path in RUNS.glob(f"*/{plans.FILE_NAME}")]
    if known:
        return UnknownNameError("run", run, known)
    return ConfigError(
        f"no run {run} was started from this folder; where is it? Give --provider=gcp, aws or"
        " azure, or --provider=kubernetes with --context and --namespace, or go to the folder that"
        " holds runs/"
    )


def _check_fit(said: Where) -> None:
    ours = ("project", "profile", "subscription", "region", "store")
    given = [f"--{name}" for name in ours if getattr(said, name)]
    if given:
        raise ConfigError(
            f"{' and '.join(given)} tell of a cloud: add --provider={', '.join(CLOUDS)}"
        )


def resolved(plan: Plan, say: Callable[[str], None], clouds: Clouds = BUILT_IN) -> Plan:
    """Returns a plan in which nothing is left that only a cloud knows, with its steps.

    Args:
        plan: With placeholders.
        say: Is told what is waited for.
        clouds: Those that are known.

    Raises:
        CredentialsError: No login was found.
        PlanError: The cloud cannot serve it.
    """
    if not plan.place.is_rented:
        return plan
    from cloudgan.auditing.metadata_server import forget_unless_there
    from cloudgan.planning.renting import all_steps

    forget_unless_there()
    found = plans.filled(plan, clouds.open(plan.place, say).known(plan))
    return found.model_copy(update={"steps": all_steps(found, clouds)})


def folder_of(plan: Plan) -> RunFolder:
    """Returns the folder here that keeps a copy of what a run left."""
    return RunFolder(RUNS / plan.run)


def config_here(plan: Plan) -> RunConfig:
    """Returns a run's configuration as this machine reads it: with the data's own name."""
    data = plan.config.data.model_copy(update={"path": plan.showers.source})
    return plan.config.model_copy(update={"data": data})
