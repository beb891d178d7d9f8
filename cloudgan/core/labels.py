"""Names and labels of a run's resources: valid on Kubernetes and on every cloud.

The rules are the strictest of four: lower case letters, digits and hyphens, at most 63 characters
(Google Cloud, https://cloud.google.com/compute/docs/labeling-resources; Kubernetes, RFC 1123; both
read 2026-11-21). Every object of a run carries its labels from the moment it is created.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cloudgan.core.errors import ConfigError

RUN = "cloudgan-run"
OWNER = "cloudgan-owner"
EXPIRES = "cloudgan-expires"
SPEC = "cloudgan-spec"
SHARED = "cloudgan-shared"
"""On resources that several runs share, such as a cluster or a bucket; the value is the kind."""

LONGEST_NAME = 48
"""A pod is named NAME-INDEX-xxxxx, and a host name has at most 63 characters."""

NAME_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(NAME_PATTERN)
_LONGEST_VALUE = 63
_SPEC_DIGITS = 10
_SHORTEST_NAMED = 6


class Labels(NamedTuple):
    """The labels of a run's resources.

    Attributes:
        run: Name of the run.
        owner: User who started the run; no e-mail address.
        expires: Time after which anyone may delete the resource, such as ``20261128t093000z``.
        spec_hash: Hash of the requested specification.
    """

    run: str
    owner: str
    expires: str
    spec_hash: str

    def as_dict(self) -> dict[str, str]:
        """Returns the labels as Kubernetes and the clouds accept them."""
        return {RUN: self.run, OWNER: self.owner, EXPIRES: self.expires, SPEC: self.spec_hash}


def checked_name(name: str) -> str:
    """Returns a run's name if it is valid on every cloud."""
    if _NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    proposed = as_value(name, LONGEST_NAME).lstrip("-0123456789") or "run"
    raise ConfigError(
        f"--name={name} names hosts and labels, so it must begin with a letter, hold lower case"
        f" letters, digits and hyphens only, and at most {LONGEST_NAME} of them;"
        f" --name={proposed} would do"
    )


def as_value(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Returns `text` as a label value; drops the host of an e-mail address."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.partition("@")[0].lower())
    return plain[:longest].strip("-")


def derived_name(run: str, spec: str, longest: int, *, hyphens: bool = True) -> str:
    """Returns a resource name that is a function of the run and its specification.

    Args:
        run: A checked name.
        spec: Digits of what was asked.
        longest: Maximum length on the cloud, at least twelve.
        hyphens: Whether the cloud allows hyphens; otherwise the name is ``cg`` and ten digits.
    """
    digits = hashlib.sha256(f"{run}/{spec}".encode()).hexdigest()[:_SPEC_DIGITS]
    if not hyphens or longest < _SPEC_DIGITS + _SHORTEST_NAMED:
        return f"cg{digits}"
    return f"{run[: longest - _SPEC_DIGITS - 1].rstrip('-')}-{digits}"


def expiry(when: dt.datetime) -> str:
    """Returns a time as a label value, in UTC."""
    return when.astimezone(dt.UTC).strftime("%Y%m%dt%H%M%Sz")


def moment_of(expires: str | None) -> dt.datetime | None:
    """Parses a value of `expiry`; None: the value is invalid."""
    try:
        return dt.datetime.strptime(expires or "", "%Y%m%dt%H%M%Sz").replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def spec_digits(spec: Mapping[str, Any]) -> str:
    """Returns a hash of `spec` (JSON)."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_SPEC_DIGITS]
