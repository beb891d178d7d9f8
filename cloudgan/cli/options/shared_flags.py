"""Flag groups that several commands share: `with_flags` adds them to a command's signature."""

from __future__ import annotations

import functools
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable


def with_flags(
    **groups: Callable[..., Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the flags of other functions to a command.

    Args:
        **groups: By the command's parameter that receives the result: a function whose keyword-only
            parameters become flags of the command, with their help; it is called with their values.

    Returns:
        A decorator; in the command's help the shared flags come first.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        taken = {name: tuple(inspect.signature(group).parameters) for name, group in groups.items()}

        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> None:
            for name, group in groups.items():
                given = {key: values.pop(key) for key in taken[name] if key in values}
                if name not in values:
                    values[name] = group(**given)
            command(*arguments, **values)

        own = [p for p in inspect.signature(command).parameters.values() if p.name not in groups]
        shared = [p for g in groups.values() for p in inspect.signature(g).parameters.values()]
        placed = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        named = [p for p in own if p.kind is p.KEYWORD_ONLY]
        hints = _hints(command, [p.name for p in own])
        for group in groups.values():
            hints |= get_type_hints(group)
        call.__signature__ = inspect.Signature([*placed, *shared, *named])  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: hints[p.name] for p in (*own, *shared)}
        call.__doc__ = _joined([command, *groups.values()])
        del call.__wrapped__  # inspect.signature() must not follow it
        return call

    return wrap


def with_values(command: Callable[..., None], **values: Any) -> Callable[..., None]:
    """Returns a command in which some parameters are fixed (tests and the live test inject clouds).

    Args:
        command: A command with shared flags.
        **values: By the name of a parameter that a group without flags fills otherwise.
    """

    @functools.wraps(command)
    def call(*arguments: Any, **others: Any) -> None:
        command(*arguments, **values, **others)

    call.__signature__ = inspect.signature(command)  # type: ignore[attr-defined]
    del call.__wrapped__
    return call


def _hints(function: Callable[..., Any], names: list[str]) -> dict[str, Any]:
    """Type hints of `names`; the others may not be resolvable at run time."""
    written = SimpleNamespace(__annotations__={n: function.__annotations__[n] for n in names})
    return get_type_hints(written, globalns=function.__globals__)


def _joined(functions: list[Callable[..., Any]]) -> str:
    """Joins the first docstring with the `Args:` of all."""
    docs = [inspect.getdoc(function) or "" for function in functions]
    text, _, own = docs[0].partition("\nArgs:\n")
    others = [doc.partition("\nArgs:\n")[2].partition("\n\n")[0] for doc in docs[1:]]
    own, _, rest = own.partition("\n\n")
    items = "\n".join(part.rstrip("\n") for part in (own, *others) if part.strip())
    return f"{text}\nArgs:\n{items}\n\n{rest}".rstrip() + "\n"
