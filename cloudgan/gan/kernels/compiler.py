"""Compiles LLVM intermediate code for this processor and caches the machine code on disk."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import DataError
from cloudgan.core.settings import data_folder

MAX_FILES = 500
"""About 40 MB; a paper run needs 30."""
_DIGEST_BYTES = 32
_PRIVATE = 0o700


class ObjectCache:
    """Cache files in a folder, each named by its key and prefixed with a digest of its content.

    Machine code is loaded only from a folder that no other user can write (mode 0700).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        """Returns the cached code; None if missing, damaged, or perhaps of another user."""
        path = self._folder / key
        with contextlib.suppress(OSError):
            if not self._is_private() or not _is_own(path, stat.S_ISREG):
                return None
            content = path.read_bytes()
            digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                path.touch()  # the oldest are deleted first
                return code
        return None

    def put(self, key: str, code: bytes) -> None:
        """Stores `code`; does nothing if the folder cannot be written, or is of another user."""
        with contextlib.suppress(DataError, OSError):
            self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            if not self._is_private():
                if not _is_own(self._folder, stat.S_ISDIR):
                    return
                for path in self._folder.iterdir():  # others may have written it
                    path.unlink()
                self._folder.chmod(_PRIVATE)
            write_atomic(self._folder / key, hashlib.sha256(code).digest() + code)
            files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in files[: max(0, len(files) - MAX_FILES)]:
                path.unlink(missing_ok=True)

    def _is_private(self) -> bool:
        mode = stat.S_IMODE(self._folder.lstat().st_mode)
        return _is_own(self._folder, stat.S_ISDIR) and not mode & ~_PRIVATE


def _is_own(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Whether a path is of this kind and of this user; a symbolic link is neither."""
    found = path.lstat()
    return is_kind(found.st_mode) and found.st_uid == os.getuid()


def compile_function(module: ir.Module, name: str) -> Callable[..., None]:
    """Compiles function `name` of `module`; the result takes addresses and releases the GIL.

    Each function owns its engine: a shared one would change the permissions of pages in which another thread
    may be running.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features,
        opt=2,
        jit=True,
    )
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    text = str(module)
    parts = (text, llvm.get_host_cpu_name(), features, llvmlite.__version__)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    cache = ObjectCache(data_folder() / "kernels")
    code = cache.get(key)
    parsed = llvm.parse_assembly(text)
    if code is None:
        parsed.verify()
        _optimise(parsed, target)
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.set_object_cache(
        notify_func=lambda _, compiled_code: cache.put(key, compiled_code),
        getbuffer_func=lambda _: code,
    )
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(module.get_global(name).args))
    function: Any = kind(engine.get_function_address(name))
    function.engine = engine
    compiled: Callable[..., None] = function
    return compiled


def _optimise(parsed: Any, target: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(parsed, builder)
