"""Plans of deployments whose workers train the trials of a search: `deploy -- join NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError
from cloudgan.core.labels import checked_name
from cloudgan.core.local_path import local_path
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.plan import Forecast, Showers

if TYPE_CHECKING:
    from cloudgan.api.launch_request import LaunchRequest
    from cloudgan.api.plan_inputs import Training

JOINED = Showers(source="those of the search")
"""Showers of a plan whose workers train the trials of a search."""
TRIAL_FORECAST = Forecast(epochs=1, why_unknown="the blocks train trials until the search ends")


def is_join(training: Training) -> bool:
    """Whether flags or run.yaml request the trials of a search."""
    given, file = training
    if given.get("join"):
        return True
    return bool(file) and read_yaml(local_path(str(file))).get("task") == "join"


def check_join(training: Training, request: LaunchRequest) -> None:
    """Checks a request to join a search.

    Raises:
        ConfigError: A flag has no effect on trials, or the coordinator cannot reach the store.
    """
    given, file = training
    name = given.get("join")
    if not name or file:
        raise ConfigError(
            f"--config={file}: blocks train the trials of a search, whose run.yaml is that of the search;"
            " give -- join NAME without --config"
        )
    try:
        checked_name(name)
    except ConfigError as error:
        raise ConfigError(f"{name} is no name of a search: {error}") from error
    if request.is_provisioned:
        raise ConfigError(
            f"--provider={request.provider} chooses its nodes by the forecast of one run, which a search does"
            " not have, so it is not built for the job join. Create a cluster, and give --provider=kubernetes"
            " --context=NAME"
        )
    if not request.store or request.store.startswith(CLAIM):
        raise ConfigError(
            "the job join needs the store of the search: give --store=URL before --, that of `cloudgan search` for"
            " join; a bucket or a folder that all nodes see"
        )
