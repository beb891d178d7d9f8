"""Machine code that is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from cloudgan.native import machine, object_cache
from cloudgan.native.emitter import LANES, Emitter
from cloudgan.native.object_cache import ObjectCache

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def doubled() -> ir.Module:
    module = ir.Module("doubled")
    emit = Emitter(module, "doubled", ("given", "result"))
    value = emit.load(emit.pointers["given"])
    emit.store(emit.add(value, value), emit.pointers["result"])
    emit.end()
    return module


def run(module: ir.Module) -> list[float]:
    given, result = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
    machine.compile_function(module, "doubled")(given.ctypes.data, result.ctypes.data)
    return result.tolist()


EXPECTED = [2.0 * lane for lane in range(LANES)]


def test_the_second_process_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    assert run(doubled()) == EXPECTED
    (kept,) = (tmp_path / "kernels").iterdir()
    compiled: list[object] = []
    monkeypatch.setattr(machine, "_optimise", lambda *given: compiled.append(given))
    assert run(doubled()) == EXPECTED
    assert compiled == []
    assert list((tmp_path / "kernels").iterdir()) == [kept]


def test_a_file_that_is_not_whole_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    run(doubled())
    (kept,) = (tmp_path / "kernels").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-100])
    assert run(doubled()) == EXPECTED
    assert kept.read_bytes() == whole


def test_where_nothing_can_be_kept_it_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels").write_text("a file in the way")
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    assert run(doubled()) == EXPECTED


def test_the_oldest_go_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "MOST_FILES", 2)
    cache = ObjectCache(tmp_path)
    for age, key in enumerate("cba"):
        cache.put(key, key.encode())
        os.utime(tmp_path / key, (age, age))
    cache.put("d", b"d")
    assert cache.get("c") is None
    assert cache.get("d") == b"d"
    assert len(list(tmp_path.iterdir())) == 2
