"""Options of the commands on runs: status, logs, exec, shell, tensorboard, cancel, down, adopt; and image, worker."""

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
        "a run, grid, search, trial or sweep of seeds", None, words="all of this folder"
    )


class StatusOptions(RunOptions):
    """State, progress and cost of a run; without a name, of all runs of this folder.

    Examples:
        cloudgan status
        cloudgan status mine --watch=10
        cloudgan status mine --provider=gcp
    """

    watch: bool | float = flag(
        False, "show it again every X seconds, until Ctrl-C", "Output", words="every 2"
    )
    metrics: bool = flag(False, "print metrics for Prometheus instead", "Output")


class LogsOptions(LocatorFlags):
    """Shows what the workers of a run printed.

    With --follow it goes on until the run ends.

    Examples:
        cloudgan logs mine --follow
        cloudgan logs mine --since=10m -n 100
    """

    run: str = RUN
    follow: bool = flag(False, "go on until the run ends", "Output", letter="f")
    since: str | None = flag(
        None,
        "omit earlier lines; a duration such as 10m, or an ISO 8601 time",
        "Output",
        placeholder="TIME",
    )
    lines: int | None = flag(None, "only the last N lines", "Output", letter="n", ge=0, le=10**9)


class ReportOptions(Options):
    """Opens the page of a run: curves, showers, verdict, cost.

    The page is report.html in the run's folder, which `validate`, `search` (--report) and `evolve` write.

    Examples:
        cloudgan report
        cloudgan report mine --no-browser
    """

    run: str | None = argument("a run, by name or folder", None, words="the newest")
    browser: bool = flag(True, "open it in a browser; its path is printed in any case", "Output")


class ServeOptions(Options):
    """Shows all runs of this folder in a browser, until Ctrl-C.

    The page is read only. The server listens on loopback, and its address has a token.

    Examples:
        cloudgan serve
        cloudgan serve --port=0
    """

    port: int = flag(8421, "port of this machine; 0 takes a free one", ge=0, le=65535)


class ExecOptions(LocatorFlags):
    """Runs a command beside a running worker and exits with its code.

    On Kubernetes in the worker's container, on Slurm on its node, locally in its folder; with the
    worker's environment variables and no standard input. No shell expands the words: use
    `sh -c '...'`. After Ctrl-C a command in a pod may continue.

    Examples:
        cloudgan exec mine -- nvidia-smi
        cloudgan exec mine --worker=1 -- sh -c 'tail -n 5 *.log'
    """

    run: str = RUN
    command: tuple[str, ...] = flag(
        (), "program and its arguments", takes_words=True, is_required=True
    )
    worker: int = flag(0, "index of the worker", ge=0, le=MAX_PROCESSES)


class ShellOptions(LocatorFlags):
    """Opens a shell beside a running worker.

    Ctrl-C and Ctrl-D go to the shell; the run continues when it ends. Exits with the code of the shell.

    Examples:
        cloudgan shell mine
        cloudgan shell mine --worker=1
    """

    run: str = RUN
    worker: int = flag(0, "index of the worker", ge=0, le=MAX_PROCESSES)


class TensorboardOptions(LocatorFlags):
    """Shows the losses of a run in TensorBoard, until Ctrl-C.

    Reads the record from the store of the run every 30 s; the pods need no open port. The epochs have
    the tags of `train --track`.

    Examples:
        cloudgan tensorboard mine
        cloudgan tensorboard mine --port=0
    """

    run: str = RUN
    port: int = flag(6006, "port of this machine; 0 takes a free one", "Output", ge=0, le=65535)


class CancelOptions(LocatorFlags):
    """Stops a run after its workers saved a checkpoint.

    The nodes are deleted, and the store keeps everything: `deploy` resumes the run.

    Examples:
        cloudgan cancel mine
        cloudgan cancel mine --provider=gcp
    """

    run: str = argument(
        "a run, or a sweep of seeds; by name or folder; of a sweep the running run is stopped"
    )


class DownOptions(LocatorFlags):
    """Stops a run, deletes its resources and prints its cost.

    It can be repeated safely. Record and checkpoints stay in the store unless --purge is given, and in runs/NAME.

    Examples:
        cloudgan down mine
        cloudgan down mine --purge --yes
    """

    run: str = argument("a run, or a sweep of seeds; by name or folder")
    purge: bool = flag(False, "delete its folder in the store, too", "Run")
    yes: bool = YES


class AdoptOptions(LocatorFlags):
    """Imports a run that another machine started, into runs/NAME.

    Plan, times and record come from the run's store; its resources are found by their labels. Afterwards `status`, `logs`,
    `cost`, `cancel`, `down` and `deploy` work in this folder.

    Examples:
        cloudgan adopt mine --provider=gcp
        cloudgan adopt mine --provider=kubernetes --context=lab
    """

    run: str = RUN


class ImageOptions(Options):
    """Writes what a container image is built from, and prints the build commands.

    Replace the names in capitals; the registry must exist (docs/cluster.md). Then: `deploy --image=REF`.

    Examples:
        cloudgan image --kind=gpu
        cloudgan image image --kind=cpu
    """

    folder: str | None = argument(
        "folder to write; Dockerfile, lock files and cloudgan's wheel", None, words="image-KIND"
    )
    kind: Literal["cpu", "gpu", "tpu"] = flag("gpu", "what its nodes compute with")


class WorkerOptions(Options):
    """Runs one worker of a run. Pods start it, not users; see `deploy`.

    Its configuration is in the environment variables that `deploy` sets in pods.
    """

    barrier_seconds: float = flag(
        1800.0, "seconds to wait for the others; then exit with 75", gt=0, le=MAX_SECONDS
    )
    first_step_seconds: float = flag(
        900.0, "restart if the first steps take longer", gt=0, le=MAX_SECONDS
    )
    stall_seconds: float = flag(
        120.0,
        "restart if no step ends within; or within the time of 20 steps",
        gt=0,
        le=MAX_SECONDS,
    )
    grace_seconds: float = flag(15.0, "seconds from SIGTERM to the pod's end", ge=0, le=MAX_SECONDS)


class SetupOptions(AccountFlags):
    """Creates what an account needs once in a region; nothing of it bills by the hour.

    That is the bucket, and identities with their permissions. Rerun it to create what is missing. `deploy` creates the bucket itself; identities need an
    administrator to run this once.

    Examples:
        cloudgan setup --provider=gcp --region=us-central1 --dry-run
        cloudgan setup --provider=gcp --teardown
    """

    teardown: bool = flag(
        False, "delete what no run owns; in --region, or everywhere without --region", "Delete"
    )
    purge: bool = flag(
        False,
        "delete the buckets as well; with all checkpoints, logs and records; only with --teardown",
        "Delete",
    )
    dry_run: bool = flag(False, "show the requests and stop; needs no login", "Run")
    yes: bool = YES

    @model_validator(mode="after")
    def _of_one_cloud(self) -> Self:
        if self.provider is None:
            raise ConfigError(f"--provider is missing; give --provider={choices()}")
        if self.purge and not self.teardown:
            raise ConfigError("--purge empties buckets; it is only valid with --teardown")
        return self


class DoctorOptions(AccountFlags):
    """Lists what cloudgan left in your clouds, what it costs and how to delete it.

    It looks in every cloud that you are logged in to, and shows for each resource its run, its cost per day and the command that deletes it. Exits with 4
    if resources are orphaned or a part of a cloud did not answer, with 2 if no cloud could be queried.
    Resources without cloudgan's labels are not listed.

    Examples:
        cloudgan doctor
        cloudgan doctor --provider=gcp --delete
    """

    store: tuple[str, ...] = flag(
        (),
        "stores outside the account's bucket; separated by commas",
        "Where",
        placeholder="URL,...",
    )
    delete: bool = flag(
        False, "delete orphaned resources; after confirmation, never those of active runs", "Delete"
    )
    yes: bool = YES
