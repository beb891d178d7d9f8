"""The generated code needs llvmlite, which comes with the extra `train`."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")
