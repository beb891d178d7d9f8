"""`cloudgan schema`: JSON schemas of the files that people and programs exchange."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.cli.output import show_json


def schema(
    file: Literal["run.yaml", "record.jsonl", "launch.json", "cost.json", "heartbeat.json"],
    *,
    json: bool = False,
) -> None:
    """Prints the JSON schema of a file, so that an editor completes and checks it.

    Args:
        file: Which one.
        json: Changes nothing: a schema is JSON.
    """
    del json
    from pydantic import TypeAdapter

    from cloudgan.core.config import RunConfig
    from cloudgan.core.cost_report import CostReport
    from cloudgan.core.heartbeat import Heartbeat
    from cloudgan.core.launch import Launch
    from cloudgan.core.record import Line

    kinds: dict[str, Any] = {
        "run.yaml": RunConfig,
        "record.jsonl": Line,
        "launch.json": Launch,
        "cost.json": CostReport,
        "heartbeat.json": Heartbeat,
    }
    show_json(TypeAdapter(kinds[file]).json_schema())
