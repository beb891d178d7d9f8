"""Kubernetes quantities (`500m`, `2Gi`) and the resource requests of a pod."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+|m|u|n|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
SUFFIXES = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6)}
SUFFIXES |= {"m": Fraction(1, 1000), "k": Fraction(1000)}
SUFFIXES |= {name: Fraction(1000**power) for power, name in enumerate("MGTPE", 2)}
SUFFIXES |= {f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)}


def parse(text: str | float) -> Fraction:
    """Reads a quantity; ValueError where it is none."""
    found = QUANTITY.match(str(text))
    if not found:
        raise ValueError(f"{text!r} is no quantity")
    number, suffix = Fraction(found[1]), found[2] or ""
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return number * Fraction(10) ** int(suffix[1:])
    return number * SUFFIXES[suffix]


def shown(amount: Fraction) -> str:
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{int(amount * 1000)}m"


def requests(container: dict[str, Any], kind: str = "requests") -> dict[str, Fraction]:
    """What a container asks for: its requests, and its limits where it requests nothing."""
    resources = container.get("resources") or {}
    asked = dict(resources.get("limits") or {})
    if kind == "requests":
        asked |= resources.get("requests") or {}
    return {name: parse(amount) for name, amount in asked.items()}


def of_pod(pod: dict[str, Any], kind: str = "requests") -> Counter[str]:
    """What a pod takes of a node: its containers' sum, or the largest of its init containers."""
    total: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        for name, amount in requests(container, kind).items():
            total[name] += amount  # type: ignore[assignment]
    for container in pod["spec"].get("initContainers") or []:
        for name, amount in requests(container, kind).items():
            total[name] = max(total[name], amount)  # type: ignore[call-overload]
    return total


def is_over(pod: dict[str, Any]) -> bool:
    """Returns whether a pod's containers have all ended, so that it takes no resources any more."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
