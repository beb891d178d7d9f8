"""`cloudgan schema`: JSON schemas of the documents."""

from __future__ import annotations

from typing import Any

from cloudgan.cli.views.output import print_json
from cloudgan.core.command import command
from cloudgan.schema.options.runs import SchemaOptions


@command
def schema(options: SchemaOptions) -> None:
    """Runs the command."""
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
    print_json(TypeAdapter(kinds[options.file]).json_schema())
