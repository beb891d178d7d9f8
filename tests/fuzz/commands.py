"""A valid command line of each command in the project, as its words behind the name."""

from command_options import options_by_command

SIGNATURES = options_by_command()
ALWAYS = {
    "simulate": ("--showers=2",),
    "demo": ("--data=missing.h5", "--run=run.yaml/x"),
    "bench step": ("--against=missing",),
    "bench input": ("--data=missing.h5",),
    "bench generate": ("--run=missing",),
    "deploy": ("--dry-run",),
    "setup": ("--dry-run",),
    "image": ("out",),
}
"""Words without which a case would compute for long, or ask a cloud."""
VALID = {
    "simulate": ("out.h5",),
    "convert": ("showers.h5", "out.h5"),
    "train": ("--config=run.yaml",),
    "generate": ("runs/mine", "out.h5"),
    "export": ("runs/mine", "out"),
    "validate": ("--generated=showers.h5", "--reference=showers.h5"),
    "schema": ("run.yaml",),
    "plan": ("--config=run.yaml",),
    "deploy": ("--config=run.yaml",),
    **dict.fromkeys(("status", "logs", "cancel", "down", "adopt"), ("mine",)),
    **dict.fromkeys(("cost", "compare"), ("runs/mine",)),
    "offers": ("--run=runs/mine",),
}
