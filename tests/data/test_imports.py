from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import cloudgan.data.convert, cloudgan.data.epoch_sampler, cloudgan.data.sources, cloudgan.data.batches
sys.exit("tensorflow" in sys.modules)
"""


def test_showers_are_read_and_ordered_without_tensorflow():
    assert subprocess.run([sys.executable, "-c", PROGRAM], check=False).returncode == 0
