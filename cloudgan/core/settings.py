"""The only reader of the environment. Values are read on each call; secrets are not stored."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.local_path import local_path
from cloudgan.core.user_text import check_text

LogFormat = Literal["text", "json"]

_LIVENESS = "CLOUDGAN_LIVENESS"
_HOST = "CLOUDGAN_HOST"
_NO = frozenset({"", "0", "false", "no", "off"})
_QUIET_TENSORFLOW = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # a machine without a GPU is an "error"; real ones raise
    # Off by default on processors without AVX-512, where it makes a step two to three times faster;
    # set explicitly, because the bits of a resumed run depend on it.
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "GRPC_VERBOSITY": "ERROR",
    "KERAS_BACKEND": "tensorflow",
    # ONNX Runtime 1.29 and later send facts of a loaded model to Microsoft unless this is set
    # (https://github.com/kibae/onnxruntime-server/releases/tag/v1.29.0, read 2026-11-23).
    "ORT_DISABLE_TELEMETRY": "1",
}


def variable(name: str) -> str | None:
    """Returns one environment variable; None where it is missing or empty.

    Also for credentials and endpoints: the caller uses the value at once and does not store it.
    """
    return os.environ.get(name) or None


def address(name: str) -> str | None:
    """Returns the URL or path in an environment variable; None where it is missing or empty.

    Raises:
        ConfigError: It contains a login, key or token: a request may look it up as the name of a host,
            and plans would show it.
    """
    found = variable(name)
    check_text(name, found or "")
    return found


def check_addresses(prefix: str) -> None:
    """Checks the URLs in all environment variables whose names begin with `prefix`."""
    for name in os.environ:
        if name.startswith(prefix):
            address(name)


def is_on(name: str) -> bool:
    """Whether a variable has a value other than no, off, false, 0 or the empty string."""
    return os.environ.get(name, "").strip().lower() not in _NO


def tf_config() -> str | None:
    """Returns TF_CONFIG, the JSON description of the cluster and of this task."""
    return variable("TF_CONFIG")


def has_tpu() -> bool:
    """Whether the environment declares a TPU.

    CLOUDGAN_TPU=local is what a TPU VM's startup script sets; in Kubernetes Google's device plugin
    sets TPU_WORKER_HOSTNAMES.
    """
    return is_on("CLOUDGAN_TPU") or variable("TPU_WORKER_HOSTNAMES") is not None


def uses_pjrt() -> bool:
    """Whether the plan selected TensorFlow's PJRT runtime, which TPUs since v5e need."""
    return variable("PJRT_DEVICE") == "TPU" and is_on("NEXT_PLUGGABLE_DEVICE_USE_C_API")


def planned_accelerators(read: Callable[[str], str | None] = variable) -> int:
    """Returns CLOUDGAN_ACCELERATORS, the accelerators that the plan has for this worker; 0: none."""
    found = read("CLOUDGAN_ACCELERATORS") or "0"
    if not (found.isascii() and found.isdigit()):
        raise ConfigError(
            f"CLOUDGAN_ACCELERATORS is {shorten(found)!r}; it must be the number of accelerators of"
            " this worker, which `cloudgan deploy` sets"
        )
    return int(found)


def home_folder() -> Path:
    """Returns the user's home folder.

    Raises:
        ConfigError: HOME is not set, and the user has no entry in the system's list of users, or it
            is no absolute path.
    """
    settle_home()
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigError("the home folder of this user is unknown; set HOME") from error


def settle_home() -> None:
    """Removes an empty HOME, and refuses a relative one; call it before a library looks for its files.

    Libraries would create their folders of settings in the current folder, or below the root.

    Raises:
        ConfigError: HOME is no absolute path, which POSIX requires
            (https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html, 2026-11-22).
    """
    home = os.environ.get("HOME")
    if home == "":
        del os.environ["HOME"]
    elif home is not None and not Path(home).is_absolute():
        raise ConfigError(
            f"HOME is {shorten(home)!r}; set it to the absolute path of your home folder"
        )


def folder_variable(name: str) -> Path | None:
    """Returns a variable that names a folder; None where it is missing or empty."""
    named = address(name)
    if not named:
        return None
    folder = local_path(named, source=name, advice="set it to a folder, or unset it")
    try:
        folder.exists()
    except OSError as error:
        raise ConfigError(
            f"{name} is {shorten(named)!r}, which no folder can be ({error.strerror})"
        ) from error
    return folder


def data_folder() -> Path:
    """Returns the user's data folder: CLOUDGAN_DATA, else a subfolder of XDG_DATA_HOME.

    A relative XDG_DATA_HOME counts as not set
    (https://specifications.freedesktop.org/basedir-spec/0.8, 2026-11-22).
    """
    own = folder_variable("CLOUDGAN_DATA")
    if own:
        return own
    data = folder_variable("XDG_DATA_HOME")
    if data is None or not data.is_absolute():
        data = home_folder() / ".local" / "share"
    return data / "cloudgan"


def config_folder() -> Path:
    """Returns the folder of the user's settings: XDG_CONFIG_HOME, else ~/.config."""
    named = folder_variable("XDG_CONFIG_HOME")
    return named if named and named.is_absolute() else home_folder() / ".config"


def is_mpi_rank() -> bool:
    """Whether a process manager of MPI (mpiexec, mpirun, srun) started this process."""
    return mpi_rank() is not None


def mpi_rank() -> int | None:
    """Returns the number that the process manager of MPI gave this process; None: it is no rank."""
    names = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
    text = next(filter(None, map(variable, names)), None)
    return None if text is None else int(text) if text.isdecimal() else 0


FIRST_RANK_SECONDS: Final = 10.0
"""How long a rank waits with a refusal for the first rank to say the same: the launcher then ends this one.

Hydra ends all ranks when one has ended, so that one which is silent must not be the first.
"""


def is_first_rank_here() -> bool:
    """Whether this process is the first rank of its machine, or no rank: one says what all ranks there know.

    Hydra, Open MPI and srun number the ranks of a machine (`mpiexec -n 1 env`, MPICH 5.0.2;
    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html, read 2026-11-30;
    SLURM_LOCALID of srun).
    """
    names = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
    number = next(filter(None, map(variable, names)), "0")
    return not is_mpi_rank() or number == "0"


def is_supervised() -> bool:
    """Whether a parent cloudgan process supervises this one."""
    return is_on("CLOUDGAN_SUPERVISED")


def is_watched() -> bool:
    """Whether a parent reads the liveness file of this process: the agent of a node, or a block of a search."""
    return variable(_LIVENESS) is not None


def has_agent() -> bool:
    """Whether the agents of nodes supervise this rank; the other nodes have folders of their own."""
    return agent_host() is not None


def agent_host() -> str | None:
    """Returns CLOUDGAN_HOST, at which the agents of other nodes reach that of this node; None: no agent."""
    return variable(_HOST)


def liveness_file() -> Path | None:
    """Returns CLOUDGAN_LIVENESS, the liveness file that the parent of a trainer process reads.

    Of several MPI ranks on a node the first one writes it (Hydra numbers them in MPI_LOCALRANKID).
    """
    named = variable(_LIVENESS)
    is_first = (variable("MPI_LOCALRANKID") or "0") == "0"
    return Path(named) if named and is_first else None


def smoke_seconds() -> float | None:
    """Returns CLOUDGAN_SMOKE_SECONDS, which a worker sets for its first trainer; None: no smoke step."""
    found = variable("CLOUDGAN_SMOKE_SECONDS")
    return float(found) if found else None


def log_format() -> LogFormat:
    """Returns CLOUDGAN_LOG: text for people, json for a pod."""
    found = variable("CLOUDGAN_LOG") or "text"
    if found == "text":
        return "text"
    if found == "json":
        return "json"
    raise ConfigError(f"CLOUDGAN_LOG is {found!r}; set it to text or json, or unset it")


def quiet_tensorflow() -> None:
    """Reduces the output of TensorFlow; call it before the import. Values of the user are kept."""
    for name, value in _QUIET_TENSORFLOW.items():
        if variable(name) is None:
            os.environ[name] = value


def set_for_jax(threads: int | None) -> None:
    """Sets variables that Keras and JAX read at import, for this process and its children.

    Args:
        threads: Of XLA on a CPU, which counts the cores unless NPROC is set
            (xla/pjrt/utils.cc, https://github.com/openxla/xla, read 2026-11-23).
    """
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # of XLA, too
    if threads:
        os.environ["NPROC"] = str(threads)


def set_variables(values: Mapping[str, str]) -> None:
    """Sets variables for this process and its children: of the user, or of a library that reads them at import."""
    os.environ.update(values)


def geant4_data() -> Path | None:
    """Returns GEANT4_DATA_DIR, the folder of CERN's data files, as Geant4 itself reads it."""
    return folder_variable("GEANT4_DATA_DIR")


def onednn_instructions() -> str | None:
    """Returns the newest instruction set that oneDNN may use; None: no limit."""
    return variable("ONEDNN_MAX_CPU_ISA") or variable("DNNL_MAX_CPU_ISA")


def child_environment(**changes: str | None) -> dict[str, str]:
    """Returns the environment for a child process, with `changes`; None removes a variable."""
    environment = {name: value for name, value in os.environ.items() if name not in changes}
    return environment | {name: value for name, value in changes.items() if value is not None}


_OF_SLURM = re.compile(
    r"(SLURM|SBATCH|SRUN|SQUEUE|SINFO|SCANCEL|SACCT)_(?!(CONF|CLUSTERS|CLUSTER_NAME)$).*|PMI.*"
)


def slurm_environment(without: Iterable[str] = ()) -> dict[str, str]:
    """Returns the environment for a program of Slurm, without options for it; times are UTC.

    Also `without` the secrets of the user: Slurm's controller stores the environment of a job in a file.

    Options are what an outer job exports, as JupyterHub is one on many clusters: `srun` refuses a job of which
    one variable says memory per core and another memory per node
    (https://slurm.schedmd.com/sbatch.html#SECTION_INPUT-ENVIRONMENT-VARIABLES, read 2026-11-25). And what a
    user sets for a terminal: SQUEUE_PARTITION hides the jobs of other partitions, SCANCEL_INTERACTIVE asks
    (https://slurm.schedmd.com/squeue.html, scancel.html, read 2026-11-30).
    """
    secret = frozenset(without)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not _OF_SLURM.fullmatch(name) and name not in secret
    }
    return kept | {"TZ": "UTC"}


def kubeconfig() -> str:
    """Returns KUBECONFIG, one or more paths; default: ~/.kube/config."""
    return variable("KUBECONFIG") or str(home_folder() / ".kube" / "config")


def user_name() -> str:
    """Returns the user name from the environment."""
    return variable("USER") or variable("LOGNAME") or variable("USERNAME") or "unknown"


_NO_METADATA_SERVER = {
    "NO_GCE_CHECK": "true",  # of google-auth, read when it is imported
    "AWS_EC2_METADATA_DISABLED": "true",  # of botocore
    "CLOUDGAN_NO_METADATA_SERVER": "true",  # azure-identity has no variable for it
}
_ASK_METADATA_SERVER = (
    "GCE_METADATA_HOST",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "IDENTITY_ENDPOINT",
)


def names_metadata_server() -> bool | None:
    """Whether the environment declares a metadata server; None: it does not say."""
    if any(map(variable, _ASK_METADATA_SERVER)):
        return True
    return False if all(map(is_on, ("NO_GCE_CHECK", "AWS_EC2_METADATA_DISABLED"))) else None


def use_aws_profile(name: str) -> None:
    """Selects a profile of the AWS configuration files for every boto3 session of this process.

    Removes access keys from the environment, which would take precedence.
    """
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        os.environ.pop(key, None)
    os.environ["AWS_PROFILE"] = name


def disable_metadata_servers() -> None:
    """Disables metadata servers in the SDKs; call it before they are imported.

    Only an explicit no of the user is kept: the SDKs understand "true" alone.
    """
    for name, value in _NO_METADATA_SERVER.items():
        if is_on(name) or variable(name) is None:
            os.environ[name] = value


def may_ask_metadata_server() -> bool:
    """Whether credentials may come from a metadata server, as on a virtual machine of a cloud."""
    return not is_on("CLOUDGAN_NO_METADATA_SERVER")
