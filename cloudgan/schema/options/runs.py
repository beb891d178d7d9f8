"""Options of the commands on runs: status, logs, exec, shell, tensorboard, cancel, down, adopt; and schema, image, worker."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from cloudgan.core.clouds import choices
from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import Options, argument, flag
from cloudgan.core.ranges import MAX_PROCESSES, MAX_SECONDS
from cloudgan.schema.options.shared import RUN, YES, AccountFlags, LocatorFlags


class RunOptions(LocatorFlags):
    """State, progress and cost of a run; without a name, of all runs of this folder."""

    run: str | None = argument(
        "a run, a grid, a search, a trial or a sweep of seeds, by name or folder", None
    )


class StatusOptions(RunOptions):
    """State, progress and cost of a run; without a name, of all runs of this folder.

    Examples:
        cloudgan status
        cloudgan status mine --watch=10
    """

    watch: float | None = flag(
        None, "show it again every X seconds, until Ctrl-C", "Output", ge=1, le=MAX_SECONDS
    )
    metrics: bool = flag(False, "in Prometheus' text format instead", "Output")


class LogsOptions(LocatorFlags):
    """What the workers of a run printed; with --follow, until the run ends.

    Examples:
        cloudgan logs mine --follow
        cloudgan logs mine --since=10m -n 100
    """

    run: str = RUN
    follow: bool = flag(False, "wait for new lines", "Output", letter="f")
    since: str | None = flag(
        None, "omit earlier lines; such as 10m, or an ISO 8601 time", "Output", placeholder="TIME"
    )
    lines: int | None = flag(None, "only the last ones", "Output", letter="n", ge=0, le=10**9)


class ReportOptions(Options):
    """Opens the page of a run, or prints where it is.

    Examples:
        cloudgan report mine
    """

    run: str | None = argument("a run, by name or folder", None, words="the newest")
    browser: bool = flag(True, "open it; --no-browser prints its path only", "Output")


class ServeOptions(Options):
    """Shows all runs of this folder as a local page; read only, on loopback, with a token in its address.

    Examples:
        cloudgan serve
    """

    port: int = flag(8421, "port on this machine; 0 is a free one", ge=0, le=65535)


class ExecOptions(LocatorFlags):
    """Runs a command beside a running worker and exits with its exit code.

    On Kubernetes in the worker's container, on Slurm on its node, locally in its folder; with the
    worker's environment variables and no standard input. No shell expands the words: use
    `sh -c '...'`. After Ctrl-C a command in a pod may continue.
    """

    run: str = RUN
    command: tuple[str, ...] = flag((), "program and arguments", takes_words=True, is_required=True)
    worker: int = flag(0, "index of the worker", ge=0, le=MAX_PROCESSES)


class ShellOptions(LocatorFlags):
    """Connects this terminal with a shell beside a running worker; exits with its exit code.

    Ctrl-C and Ctrl-D go to the shell; the run continues when it ends.
    """

    run: str = RUN
    worker: int = flag(0, "index of the worker", ge=0, le=MAX_PROCESSES)


class TensorboardOptions(LocatorFlags):
    """Shows the record of a run in TensorBoard on this machine, until Ctrl-C.

    Reads the record from the store of the run every 30 s; the pods need no open port. The epochs have
    the tags of `train --tensorboard`.
    """

    run: str = RUN
    port: int = flag(6006, "port on this machine", ge=0, le=65535)


class CancelOptions(LocatorFlags):
    """Stops the job of a run after its workers saved a checkpoint; `deploy` resumes it."""

    run: str = argument(
        "a run by name or folder, or the name of a sweep of seeds, whose running run is stopped"
    )


class DownOptions(LocatorFlags):
    """Stops a run, deletes its resources and prints its cost; can be repeated safely.

    Record and checkpoints stay in the store unless --purge is given, and in runs/NAME.
    """

    run: str = argument("a run by name or folder, or the name of a sweep of seeds")
    purge: bool = flag(False, "delete the run's folder in the store, too")
    yes: bool = YES


class AdoptOptions(LocatorFlags):
    """Imports a run that another machine started: plan, times and record, into runs/NAME.

    Finds resources by label, and the desired state in the run's store. Afterwards `status`, `logs`,
    `cost`, `cancel`, `down` and `deploy` work in this folder.
    """

    run: str = RUN


class SchemaOptions(Options):
    """Prints the JSON schema of a document, for the completion and checks of an editor."""

    file: Literal[
        "run.yaml",
        "plan.json",
        "launch.json",
        "record.jsonl",
        "cost.json",
        "heartbeat.json",
        "quality.json",
    ] = argument("the document")


class ImageOptions(Options):
    """Writes the build context of a container image, and prints a build command for each builder.

    Replace the names in capitals; the registry must exist (docs/image.md).

    Examples:
        cloudgan image --kind=gpu
    """

    folder: str | None = argument(
        "folder to write: Dockerfile, lock files and cloudgan's wheel", None, words="image-KIND"
    )
    kind: Literal["cpu", "gpu", "tpu"] = flag("gpu", "kind of accelerator: cpu, gpu or tpu")


class WorkerOptions(Options):
    """Runs one worker of a run; started by pods, not by users (see `deploy` and `train`).

    Its configuration is in the environment variables that `deploy` sets in pods.
    """

    barrier_seconds: float = flag(
        1800.0, "time to wait for the other workers; then exit with 75", gt=0, le=MAX_SECONDS
    )
    first_step_seconds: float = flag(
        900.0, "restart training if its first steps take longer", gt=0, le=MAX_SECONDS
    )
    stall_seconds: float = flag(
        120.0,
        "restart training if no step ends within this time, or within that of 20 steps",
        gt=0,
        le=MAX_SECONDS,
    )
    grace_seconds: float = flag(
        15.0, "time from SIGTERM to the end of the pod", ge=0, le=MAX_SECONDS
    )


class SetupOptions(AccountFlags):
    """Creates what an account needs once in a region: bucket, identities and their permissions.

    Rerun it to create what is missing. `deploy` creates the bucket itself; identities need an
    administrator to run this once. None of it bills by the hour.
    """

    teardown: bool = flag(
        False, "delete what no run owns, in --region, or everywhere without --region"
    )
    purge: bool = flag(
        False, "with --teardown: delete the buckets, too, with all checkpoints, logs and records"
    )
    dry_run: bool = flag(False, "show the requests and stop; needs no login")
    yes: bool = YES

    @model_validator(mode="after")
    def _of_one_cloud(self) -> Self:
        if self.provider is None:
            raise ConfigError(f"--provider is missing; give --provider={choices()}")
        if self.purge and not self.teardown:
            raise ConfigError("--purge empties buckets; it is only valid with --teardown")
        return self


class DoctorOptions(AccountFlags):
    """Lists all resources of cloudgan in every cloud that you are logged in to.

    Shows for each resource its run, its cost per day and the command that deletes it. Exits with 4
    if resources are orphaned or a part of a cloud did not answer, with 2 if no cloud could be queried.
    Resources without cloudgan's labels are not listed.
    """

    store: tuple[str, ...] = flag(
        (), "stores of runs that are not in the account's bucket, separated by commas"
    )
    delete: bool = flag(
        False, "delete orphaned resources, after confirmation; never those of active runs"
    )
    yes: bool = YES
