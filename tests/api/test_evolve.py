"""What a grid of cells refuses before anything is written."""

from __future__ import annotations

import pytest

from cloudgan.api.evolve import evolve
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent


@pytest.mark.tf
def test_missing_digits_are_refused_before_a_folder_holds_the_run(tmp_path):
    (tmp_path / "mnist").mkdir()
    options = {"task": "digits", "data": str(tmp_path / "mnist")}
    with pytest.raises(DataError, match="has no file train-images-idx3-ubyte"):
        evolve(options, run=str(tmp_path / "run"), progress=Silent())
    assert not (tmp_path / "run").exists()
