"""Skips without llvmlite, part of the extra `train`."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")
