"""The only reader of the environment. Everything is read when asked; nothing secret is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

LogFormat = Literal["text", "json"]

_NO = frozenset({"", "0", "false", "no", "off"})
_QUIET_TENSORFLOW = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # a machine without a GPU is an "error"; real ones raise
    # Off by default on processors without AVX-512, where it makes a step two to three times faster;
    # said aloud everywhere, because the bits of a resumed run depend on it.
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "GRPC_VERBOSITY": "ERROR",
    "KERAS_BACKEND": "tensorflow",
}


def variable(name: str) -> str | None:
    """Returns one environment variable; None where it is missing or empty.

    For credentials and endpoints too: the caller uses the value at once and does not store it.
    """
    return os.environ.get(name) or None


def is_on(name: str) -> bool:
    """Whether a variable is set to something else than no, off, false, 0 or nothing."""
    return os.environ.get(name, "").strip().lower() not in _NO


def tf_config() -> str | None:
    """Returns TF_CONFIG, this process' place among TensorFlow's workers, as the text it is."""
    return variable("TF_CONFIG")


def has_tpu() -> bool:
    """Whether somebody says that this machine has a TPU.

    CLOUDGAN_TPU=local is what a TPU VM's startup script sets; in Kubernetes Google's device plugin
    sets TPU_WORKER_HOSTNAMES.
    """
    return is_on("CLOUDGAN_TPU") or variable("TPU_WORKER_HOSTNAMES") is not None


def data_folder() -> Path:
    """Returns where this user's own data stay: CLOUDGAN_DATA, else as XDG_DATA_HOME says."""
    own = variable("CLOUDGAN_DATA")
    if own:
        return Path(own).expanduser()
    home = variable("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "cloudgan"


def is_supervised() -> bool:
    """Whether another cloudgan started this process as one of its workers."""
    return is_on("CLOUDGAN_SUPERVISED")


def pulse_file() -> Path | None:
    """Returns CLOUDGAN_PULSE, where a worker's parent looks whether steps still finish."""
    named = variable("CLOUDGAN_PULSE")
    return Path(named) if named else None


def image() -> str | None:
    """Returns CLOUDGAN_IMAGE, the container's image as its plan names it."""
    return variable("CLOUDGAN_IMAGE")


def is_ci() -> bool:
    """Whether a machine looks at the output, so that no bar should move in it."""
    return is_on("CI")


def wants_traceback() -> bool:
    """Whether CLOUDGAN_TRACEBACK asks for tracebacks, as `--traceback` does."""
    return is_on("CLOUDGAN_TRACEBACK")


def log_format() -> LogFormat:
    """Returns CLOUDGAN_LOG: text for people, json for a pod.

    Raises:
        ConfigError: It says something else.
    """
    found = variable("CLOUDGAN_LOG") or "text"
    if found == "text":
        return "text"
    if found == "json":
        return "json"
    raise ConfigError(f"CLOUDGAN_LOG is {found!r}; set it to text or json, or unset it")


def quiet_tensorflow() -> None:
    """Keeps TensorFlow from chatting; to be called before it is imported. What is set stays."""
    for name, value in _QUIET_TENSORFLOW.items():
        os.environ.setdefault(name, value)


def set_for_tensorflow(values: Mapping[str, str]) -> None:
    """Sets what TensorFlow reads when it is imported, for this process and those it starts."""
    os.environ.update(values)


def geant4_data() -> Path | None:
    """Returns GEANT4_DATA_DIR, where this user has CERN's files, as Geant4 itself reads it."""
    named = variable("GEANT4_DATA_DIR")
    return Path(named).expanduser() if named else None


def set_for_geant4(values: Mapping[str, str]) -> None:
    """Sets what Geant4 reads when it is imported: without, it asks for a download or starts one."""
    os.environ.update(values)


def handed_choice() -> str | None:
    """Returns CLOUDGAN_TUNED: what who started us as one of several workers found before."""
    return variable("CLOUDGAN_TUNED")


def onednn_instructions() -> str | None:
    """Returns the newest instruction set that oneDNN may use; None where nobody limits it."""
    return variable("ONEDNN_MAX_CPU_ISA") or variable("DNNL_MAX_CPU_ISA")


def child_environment(**changes: str | None) -> dict[str, str]:
    """Returns this environment with `changes` for a process we start; None removes a variable."""
    environment = {name: value for name, value in os.environ.items() if name not in changes}
    return environment | {name: value for name, value in changes.items() if value is not None}


PATH_SEPARATOR = os.pathsep


def kubeconfig() -> str:
    """Returns KUBECONFIG, one or more paths, else the usual place."""
    return variable("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def user_name() -> str:
    """Returns who is logged in on this machine, as its environment says."""
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
    """Whether the environment says that there is, or is not, one that gives this machine a login."""
    if any(map(variable, _ASK_METADATA_SERVER)):
        return True
    return False if all(map(is_on, ("NO_GCE_CHECK", "AWS_EC2_METADATA_DISABLED"))) else None


def use_aws_profile(name: str) -> None:
    """Lets every session of boto3 in this process log in by a profile of AWS' own files.

    Keys in the environment would go before it.
    """
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        os.environ.pop(key, None)
    os.environ["AWS_PROFILE"] = name


def forget_metadata_servers() -> None:
    """Keeps SDKs from waiting for a metadata server where there is none; before they are imported."""
    for name, value in _NO_METADATA_SERVER.items():
        os.environ.setdefault(name, value)


def may_ask_metadata_server() -> bool:
    """Whether a login may come from a metadata server, as it does on a cloud's own machines."""
    return not is_on("CLOUDGAN_NO_METADATA_SERVER")
