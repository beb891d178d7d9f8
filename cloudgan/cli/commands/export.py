"""`cloudgan export`: the generator of a run for other programs."""

from __future__ import annotations

from cloudgan.cli.options.values import parse_step
from cloudgan.cli.views.output import print_json, print_result, progress_bars


def export(
    run: str,
    output: str,
    *,
    format: str = "onnx",  # noqa: A002  the name of the flag
    step: str | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Exports the generator of a run as ONNX, Keras model or SavedModel, with a model card.

    The inputs are energy (GeV), theta (rad) and noise, the output is ECAL (GeV). ONNX needs no TensorFlow.

    Args:
        run: Folder of the run.
        output: Folder to write: the model, README.md and model_card.json.
        format: onnx, keras (loads without cloudgan) or savedmodel.
        step: Checkpoint: the number of its step (0 is untrained), or best, which needs
            --validate-every. Default: the newest.
        overwrite: Replace an existing export.
        json: Print the model card as JSON.

    Examples:
        cloudgan export runs/mine exports/mine
        cloudgan export runs/mine exports/mine-keras --format=keras --step=best
    """
    number = parse_step(step)
    from cloudgan.api import export as api

    with progress_bars(as_json=json) as progress:
        made = api.export(
            run, output, format=format, step=number, overwrite=overwrite, progress=progress
        )
    if json:
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
