"""Flags that several commands have, and where a run is."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator

from cloudgan.core import clouds
from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import STEP, Options, argument, flag
from cloudgan.core.ranges import MAX_SEED
from cloudgan.schema import run_folder

Step = Annotated[run_folder.Step, STEP]
NewRun = Annotated[str, AfterValidator(run_folder.new_run_path)]
"""A run that the command writes: a name, for runs/NAME, or a folder."""

RUN: Any = argument("a run, by name or folder; such as mine or runs/mine")
SEED: Any = flag(
    0, "the same seed gives the same showers; of every random number", ge=0, le=MAX_SEED
)
OVERWRITE: Any = flag(False, "replace an existing file")
YES: Any = flag(False, "do not ask for confirmation", "Run", screen=True)
STEP_FLAG: Any = flag(
    None,
    "checkpoint to use; the number of its step (0 is untrained), or best, which needs --validate-every",
    words="the newest",
)
REPORT: Any = flag(
    None,
    "also write the result there; as .html, .md or .csv",
    "Output",
    screen=True,
    placeholder="FILE",
)
PRICE_FILE: Any = flag(
    None,
    "prices of your own nodes; YAML, in USD per hour; --price-as names one of them",
    "Price",
    placeholder="FILE",
)
PRICE_AS: Any = flag(
    None,
    "offer whose price your machine has; such as gcp/n1-standard-8+1xT4/us-central1/spot, see `cloudgan offers`",
    "Price",
    placeholder="OFFER",
)


def providers() -> dict[str, str]:
    """Returns where a run can be, as words of a flag."""
    return dict.fromkeys(clouds.providers(), "")


class RunLocator(NamedTuple):
    """Where a run is that another folder or machine started; all None: a run of this folder."""

    provider: str | None = None
    context: str | None = None
    namespace: str | None = None
    project: str | None = None
    profile: str | None = None
    subscription: str | None = None
    region: str | None = None
    store: str | None = None


class LocatorFlags(Options):
    """Where a run is that another folder or machine started."""

    provider: str | None = flag(
        None,
        "where the run is, if not of this folder; {names}",
        "Where",
        screen=True,
        names=providers,
        placeholder="NAME",
    )
    context: str | None = flag(None, "its kubeconfig context", "Where", words="the current one")
    namespace: str | None = flag(None, "its Kubernetes namespace", "Where", words="cloudgan")
    project: str | None = flag(None, "its Google Cloud project", "Where", words="of your login")
    profile: str | None = flag(None, "its AWS profile", "Where", words="of your login")
    subscription: str | None = flag(None, "its Azure subscription", "Where", words="of your login")
    region: str | None = flag(
        None,
        "its region; else every one is searched",
        "Where",
        words="all",
    )
    store: str | None = flag(
        None, "its store; if that is not the account's own bucket", "Where", placeholder="URL"
    )

    @property
    def locator(self) -> RunLocator:
        """Where the run is."""
        return RunLocator(**self.model_dump(include=set(RunLocator._fields)))


class AccountFlags(Options):
    """Accounts of clouds."""

    provider: str | None = flag(
        None,
        "one cloud: {names}; else every cloud that you are logged in to",
        "Where",
        words="all",
        names=clouds.names,
    )
    project: str | None = flag(None, "Google Cloud project", "Where", words="of your login")
    profile: str | None = flag(
        None, "AWS profile", "Where", words="AWS_PROFILE, or the login that is found"
    )
    subscription: str | None = flag(
        None,
        "Azure subscription",
        "Where",
        words="AZURE_SUBSCRIPTION_ID, or the login's only one",
    )
    region: str | None = flag(
        None, "one region of that cloud; such as us-central1, only with --provider", "Where"
    )

    @property
    def account(self) -> RunLocator:
        """The requested accounts."""
        for name in ("project", "profile", "subscription"):
            valid = [cloud for cloud, facts in clouds.CLOUDS.items() if facts.account_flag == name]
            if getattr(self, name) and self.provider not in (*valid, None):
                raise ConfigError(
                    f"--{name} is only valid with --provider={' or '.join(valid)}, and"
                    f" --provider={self.provider} was given"
                )
        if self.region and self.provider is None:
            raise ConfigError(
                f"--region={self.region} is in one cloud: add --provider={', '.join(clouds.CLOUDS)}"
            )
        return RunLocator(**self.model_dump(include=set(RunLocator._fields)))
