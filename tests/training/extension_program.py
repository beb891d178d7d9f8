"""Adds a network in one entry, then runs `cloudgan` with the arguments given."""

from __future__ import annotations

import sys
from dataclasses import replace

from cloudgan.cli.main import main
from cloudgan.schema import presets
from cloudgan.schema.architecture import Block, Discriminator

SMOKE = presets.PROFILES["smoke"]
presets.PROFILES["tiny"] = replace(
    SMOKE,
    summary="9x9x25, half the filters",
    preset=SMOKE.preset.model_copy(update={"preset": "tiny", "networks": "tiny"}),
    discriminator=Discriminator((Block(2, (3, 3, 3)),), space_to_depth=2),
    batch=5,
)

if __name__ == "__main__":
    main(sys.argv[1:])
