"""Names and labels of what a run owns: valid on Kubernetes and on every cloud's resources.

The rules are the strictest of four: lower case letters, digits and hyphens, at most 63 characters
(Google Cloud, https://cloud.google.com/compute/docs/labeling-resources; Kubernetes, RFC 1123; both
read 2026-11-21). Every object of a run carries its labels from the moment it is created.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN = "cloudgan-run"
OWNER = "cloudgan-owner"
EXPIRES = "cloudgan-expires"
SPEC = "cloudgan-spec"
SHARED = "cloudgan-shared"
"""On what cloudgan made and no run owns, such as a cluster or a bucket; its value is what it is."""

LONGEST_NAME = 48
"""A pod is called NAME-INDEX-xxxxx, and a host name has at most 63 characters."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_VALUE = 63
_SPEC_DIGITS = 10
_SHORTEST_NAMED = 6


class Labels(NamedTuple):
    """What tells one run's things from another's.

    Attributes:
        run: Name of the run.
        owner: Who started it; no e-mail address.
        expires: When it may be removed by anybody, such as ``20261128t093000z``.
        spec: Digits that say what was asked for.
    """

    run: str
    owner: str
    expires: str
    spec: str

    def as_dict(self) -> dict[str, str]:
        """As Kubernetes and the clouds take them."""
        return {RUN: self.run, OWNER: self.owner, EXPIRES: self.expires, SPEC: self.spec}


def checked_name(name: str) -> str:
    """Returns a run's name if every cloud can take it.

    Raises:
        ConfigError: It is no DNS label, or too long; the message proposes one that is.
    """
    if _NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    proposed = as_value(name, LONGEST_NAME).lstrip("-0123456789") or "run"
    raise ConfigError(
        f"--name={name} names hosts and labels, so it must begin with a letter, hold lower case"
        f" letters, digits and hyphens only, and at most {LONGEST_NAME} of them;"
        f" --name={proposed} would do"
    )


def as_value(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Returns what a label can hold of `text`; without its host where it looks like an e-mail."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.partition("@")[0].lower())
    return plain[:longest].strip("-")


def derived_name(run: str, spec: str, longest: int, *, hyphens: bool = True) -> str:
    """Names a resource after a run and what was asked of it: the same for the same two.

    Args:
        run: A checked name.
        spec: Digits of what was asked.
        longest: Characters that the cloud allows, at least twelve.
        hyphens: Whether it allows any; else the name is ``cg`` and ten digits.
    """
    digits = hashlib.sha256(f"{run}/{spec}".encode()).hexdigest()[:_SPEC_DIGITS]
    if not hyphens or longest < _SPEC_DIGITS + _SHORTEST_NAMED:
        return f"cg{digits}"
    return f"{run[: longest - _SPEC_DIGITS - 1].rstrip('-')}-{digits}"


def expiry(when: dt.datetime) -> str:
    """Returns a moment as a label's value, in UTC."""
    return when.astimezone(dt.UTC).strftime("%Y%m%dt%H%M%Sz")


def moment_of(expires: str | None) -> dt.datetime | None:
    """Returns the moment that `expiry` wrote; None for what it did not write."""
    try:
        return dt.datetime.strptime(expires or "", "%Y%m%dt%H%M%Sz").replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def spec_digits(spec: Mapping[str, Any]) -> str:
    """Returns digits that are the same for the same `spec` (JSON) and differ for another."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_SPEC_DIGITS]
