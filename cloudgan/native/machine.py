"""Turns intermediate code into machine code of this processor."""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any

import llvmlite
import llvmlite.binding as llvm

from cloudgan.core.settings import data_folder
from cloudgan.native.object_cache import ObjectCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from llvmlite import ir


def compile_function(module: ir.Module, name: str) -> Callable[..., None]:
    """Returns function `name` of `module`; it takes addresses and lets other threads run.

    Each has an engine of its own, which it keeps alive: one engine for all would change the rights
    of pages in which another thread may be running.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
    )
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    text = str(module)
    kept, key = ObjectCache(data_folder() / "kernels"), _key(text)
    code = kept.get(key)
    parsed = llvm.parse_assembly(text)
    if code is None:
        parsed.verify()
        _optimise(parsed, target)
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.set_object_cache(
        notify_func=lambda _, made: kept.put(key, made), getbuffer_func=lambda _: code
    )
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(module.get_global(name).args))
    function: Any = kind(engine.get_function_address(name))
    function.engine = engine
    compiled: Callable[..., None] = function
    return compiled


def _key(text: str) -> str:
    """Names the machine code of a text on this processor, by this compiler."""
    features = llvm.get_host_cpu_features().flatten()
    parts = (text, llvm.get_host_cpu_name(), features, llvmlite.__version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _optimise(parsed: Any, target: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(parsed, builder)
