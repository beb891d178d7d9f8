"""Compilation and its cache."""

from __future__ import annotations

import os

import numpy as np
from llvmlite import ir

from cloudgan.gan.kernels import compiler
from cloudgan.gan.kernels.compiler import ObjectCache
from cloudgan.gan.kernels.emitter import LANES, Emitter


def doubled():
    module = ir.Module("doubled")
    emit = Emitter(module, "doubled", ("given", "result"))
    value = emit.load(emit.pointers["given"])
    emit.store(emit.add(value, value), emit.pointers["result"])
    emit.end()
    return module


def run(module):
    given, result = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
    compiler.compile_function(module, "doubled")(given.ctypes.data, result.ctypes.data)
    return result.tolist()


EXPECTED = [2.0 * lane for lane in range(LANES)]


def test_the_second_process_does_not_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    assert run(doubled()) == EXPECTED
    (kept,) = (tmp_path / "kernels").iterdir()
    compiled = []
    monkeypatch.setattr(compiler, "_optimise", lambda *given: compiled.append(given))
    assert run(doubled()) == EXPECTED
    assert compiled == []
    assert list((tmp_path / "kernels").iterdir()) == [kept]


def test_an_incomplete_file_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    run(doubled())
    (kept,) = (tmp_path / "kernels").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-100])
    assert run(doubled()) == EXPECTED
    assert kept.read_bytes() == whole


def test_code_compiles_without_a_writable_cache(tmp_path, monkeypatch):
    (tmp_path / "kernels").write_text("a file in the way")
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    assert run(doubled()) == EXPECTED


def test_machine_code_in_a_folder_that_others_can_write_is_not_loaded(tmp_path):
    folder = tmp_path / "kernels"
    cache = ObjectCache(folder)
    cache.put("a", b"code")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache.get("a") == b"code"
    folder.chmod(0o770)
    assert cache.get("a") is None
    cache.put("b", b"new")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["b"], "what others may have written is gone"
    assert cache.get("b") == b"new"


def test_machine_code_of_another_user_is_not_loaded(tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path / "kernels")
    cache.put("a", b"code")
    (tmp_path / "link").symlink_to(tmp_path / "kernels")
    assert ObjectCache(tmp_path / "link").get("a") is None
    (tmp_path / "kernels" / "c").symlink_to(tmp_path / "kernels" / "a")
    assert cache.get("c") is None
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert cache.get("a") is None
    cache.put("a", b"other")
    monkeypatch.undo()
    assert cache.get("a") == b"code"


def test_the_oldest_cached_files_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "MAX_FILES", 2)
    cache = ObjectCache(tmp_path)
    for age, key in enumerate("cba"):
        cache.put(key, key.encode())
        os.utime(tmp_path / key, (age, age))
    cache.put("d", b"d")
    assert cache.get("c") is None
    assert cache.get("d") == b"d"
    assert len(list(tmp_path.iterdir())) == 2
