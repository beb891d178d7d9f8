"""Writes cloudgan/__init__.pyi, the types of the public functions, from the models of their options.

Type checkers do not run the decorator that makes the signatures. `make golden` runs this script.
"""

import inspect
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import cloudgan as cg

STUB = Path(cg.__file__).with_name("__init__.pyi")
_HEAD = '''\
"""Types of the public functions; made by tests/api/write_stub.py."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

'''


def stub() -> str:
    """Returns the text of the stub."""
    imports, functions = [], ["__version__: str\n_EXPORTS: dict[str, str]\n"]
    for name in cg.__all__:
        if name.startswith("__"):
            continue
        value = getattr(cg, name)
        if "model" not in getattr(value, "__dict__", {}):
            imports.append(f"from {value.__module__} import {name} as {name}\n")
            continue
        functions.append(_function(name, value, imports))
    return _HEAD + "".join(sorted(set(imports))) + "\n" + "\n".join(functions)


def _function(name: str, value: Any, imports: list[str]) -> str:
    signature = inspect.signature(value)
    parts, is_keyword = [], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        default = "" if one.default is one.empty else " = ..."
        parts.append(f"{one.name}: {_text(one.annotation, imports)}{default}")
    returned = _text(signature.return_annotation, imports)
    listed = "".join(f"    {part},\n" for part in parts)
    return f"def {name}(\n{listed}) -> {returned}: ...\n"


def _text(hint: Any, imports: list[str]) -> str:  # noqa: PLR0911 -- a case each
    """Returns an annotation as source; a text may be a path, and a list any sequence."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is None or hint is types.NoneType:
        return "None"
    if hint is Any or hint is inspect.Signature.empty:
        return "Any"
    if hasattr(hint, "__metadata__"):  # Annotated
        return _text(hint.__origin__, imports)
    if hint is str:
        return "str | PathLike[str]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in {types.UnionType, Union}:
        return " | ".join(dict.fromkeys(_text(one, imports) for one in arguments))
    if origin is tuple:
        inner = list(dict.fromkeys(_text(one, imports) for one in arguments if one is not ...))
        return f"Sequence[{' | '.join(inner)}] | str"
    if origin is not None:
        inner = [
            f"[{', '.join(_text(each, imports) for each in one)}]"
            if isinstance(one, list)
            else _text(one, imports)
            for one in arguments
        ]
        return f"{origin.__name__}[{', '.join(inner)}]"
    if getattr(hint, "__module__", "").startswith("cloudgan"):
        imports.append(f"from {hint.__module__} import {hint.__name__} as {hint.__name__}\n")
    return str(hint.__name__)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
