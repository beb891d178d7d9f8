"""Environment variables of a run: --env and --env-file, whose values the plan holds, and --secret."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cloudgan.core import settings
from cloudgan.core.documents import read_text
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.masking import hide, secret_in
from cloudgan.core.user_text import check_text
from cloudgan.schema.plan import Workers

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 2**17 - 1
"""Bytes of KEY=VALUE: MAX_ARG_STRLEN is 32 pages, with the NUL at the end (execve(2))."""
_RESERVED = {
    "it tells a worker which one it is": r"CLOUDGAN_.*|TF_CONFIG|JOB_COMPLETION_INDEX",
    "Kubernetes, Slurm or MPI sets it": r"(KUBERNETES|SLURMD?|SBATCH|SRUN|PMIX?|HYDRA|HYDI|MPI|OMPI)_.*|HOSTNAME",
    "the worker would not start, or load other code": (
        r"PATH|HOME|TMPDIR|PWD|LD_.*|DYLD_.*"
        r"|PYTHON(PATH|HOME|STARTUP|UNBUFFERED|USERBASE|SAFEPATH|EXECUTABLE|PLATLIBDIR|NOUSERSITE|INSPECT)"
    ),
    "it selects accelerators, which --accelerator does": (
        r"(CUDA|NVIDIA|ROCR)_VISIBLE_DEVICES|PJRT_DEVICE|NEXT_PLUGGABLE_DEVICE_USE_C_API"
    ),
    "it has a meaning in every shell": (
        r"BASH.*|SHELLOPTS|ENV|IFS|PS4|PROMPT_COMMAND|E?UID|PPID|GROUPS|RANDOM|SECONDS|LINENO|_"
    ),
}


def check_variables(env: Iterable[str], secrets: Iterable[str]) -> None:
    """Checks the names of the variables that flags give, and that no credential is given in the open."""
    _ = dict(_pair(one, "--env=") for one in env)
    for name in secrets:
        _check_name(name.partition("=")[0], "--secret=")
        if "=" in name:
            raise ConfigError(
                f"--secret={name.partition('=')[0]}=... has a value, which the shell's history and the list of"
                " processes show: give its name only; the value is taken from your environment"
            )
    names = [*(one.partition("=")[0] for one in env), *secrets]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"{', '.join(twice)} is given twice by --env and --secret; give it once")


def run_variables(
    env: Iterable[str], secrets: Iterable[str], env_file: Path | None
) -> dict[str, str | None]:
    """Returns the values of --env-file and --env, of which --env wins; None: not set in this environment.

    Raises:
        ConfigError: See `check_variables`; or a line of the file is not valid.
    """
    in_file = dict(_lines(env_file)) if env_file else {}
    if both := sorted(set(in_file) & set(secrets)):
        raise ConfigError(f"{env_file} has a value of {both[0]}, which --secret names; remove it")
    return in_file | dict(_pair(one, "--env=") for one in env)


def missing_variables(workers: Workers) -> list[str]:
    """Returns what to set before the run can start, by variable that this environment does not set."""
    unset = (
        f"--env={name}: {name} is not set in this environment; set it, or give --env={name}=VALUE"
        for name, value in workers.env.items()
        if value is None
    )
    hidden = (
        f"--secret={name}: {name} is not set in this environment; read -rs {name} && export {name}"
        " sets it without showing it"
        for name in workers.secrets
        if not settings.variable(name)
    )
    return [*unset, *hidden]


def check_variables_set(workers: Workers) -> None:
    """Checks that this environment has what a new start of the run needs."""
    if missing := missing_variables(workers):
        raise ConfigError(missing[0])
    for name in workers.secrets:
        value = settings.variable(name) or ""
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ConfigError(
                f"--secret={name}: its value is not UTF-8, which no variable of a pod can be"
            )
        if not hide(value):
            raise ConfigError(
                f"--secret={name}: its value is too short to be masked in logs (fewer than 4 characters); give it"
                f" as --env={name}"
            )


def hide_secrets(workers: Workers) -> None:
    """Masks the values of the run's secrets in all that this process prints from now on."""
    for name in workers.secrets:
        hide(settings.variable(name) or "")


def _lines(path: Path) -> Iterator[tuple[str, str | None]]:
    text = read_text(path, ConfigError, secret=True)  # each line is checked below, and not repeated
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip().removeprefix("export ").strip()
        if not words or words.startswith("#"):
            continue
        name, equals, value = words.partition("=")
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        yield _pair(f"{name.strip()}{equals}{value.strip()}", f"{path}: line {number}: ")


def _pair(text: str, place: str) -> tuple[str, str | None]:
    """Returns name and value of KEY=VALUE, or of KEY alone with the value in this environment."""
    name, equals, value = text.partition("=")
    _check_name(name, place)
    found = value if equals else settings.variable(name)
    if secret_in(f"{name}={found or 'value'}") or secret_in(found or ""):
        raise ConfigError(
            f"{place}{name} looks like a credential, and plans and files show these values; give it as"
            f" --secret={name}, which takes the value from your environment"
        )
    check_text(f"{place}{name}", found or "")
    if (size := len(os.fsencode(f"{name}={found or ''}"))) > _LONGEST:
        raise ConfigError(
            f"{place}{name} has {size:,} bytes, and Linux starts no program with more than {_LONGEST:,} in a"
            " variable; give the name of a file instead"
        )
    return name, found


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        shown = "..." if secret_in(name) else shorten(name)
        raise ConfigError(
            f"{place}{shown}: give KEY=VALUE or KEY, where KEY has letters, digits and _, and begins with no"
            " digit"
        )
    for reason, pattern in _RESERVED.items():
        if re.fullmatch(pattern, name):
            raise ConfigError(f"{place}{name} is reserved: {reason}; give it another name")
