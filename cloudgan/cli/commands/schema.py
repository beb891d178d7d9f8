"""`cloudgan schema`: JSON schemas of the documents."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.cli.views.output import print_json


def schema(
    file: Literal[
        "run.yaml",
        "plan.json",
        "launch.json",
        "record.jsonl",
        "cost.json",
        "heartbeat.json",
        "quality.json",
    ],
    *,
    json: bool = False,
) -> None:
    """Prints the JSON schema of a document, for the completion and checks of an editor.

    Args:
        file: The document.
        json: Has no effect: a schema is JSON.
    """
    del json
    from pydantic import TypeAdapter

    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.cost_report import CostReport
    from cloudgan.schema.heartbeat import Heartbeat
    from cloudgan.schema.launch import Launch
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.quality_row import QualityRow
    from cloudgan.schema.record import Line

    kinds: dict[str, Any] = {
        "run.yaml": RunConfig,
        "plan.json": Plan,
        "record.jsonl": Line,
        "launch.json": Launch,
        "cost.json": CostReport,
        "heartbeat.json": Heartbeat,
        "quality.json": QualityRow,
    }
    print_json(TypeAdapter(kinds[file]).json_schema())
