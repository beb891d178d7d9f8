"""`cloudgan export`: the generator of a run for other programs."""

from __future__ import annotations

from cloudgan.cli.views.output import print_json, print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.showers import ExportOptions


@command
def export(options: ExportOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    number = options.step
    from cloudgan.api import export as api

    with progress_bars(as_json=as_json) as progress:
        made = api.export(
            options.run,
            options.output,
            format=options.format,
            step=number,
            overwrite=options.overwrite,
            progress=progress,
        )
    if as_json:
        print_json({"model": str(made.model)} | made.card.model_dump(mode="json"))
        return
    card = made.card
    verdict = card.validation.verdict
    print_result(
        {
            "model": str(made.model),
            "bytes": card.file.bytes,
            "step": card.training.step,
            "inputs": ", ".join(f"{each.name} {list(each.shape)}" for each in card.inputs),
            "output": f"{card.output.name} {list(card.output.shape)} {card.output.unit}",
            "validated": verdict.grade if verdict else card.validation.why_missing,
            "model_card": str(made.path / "README.md"),
        },
        as_json=False,
    )
