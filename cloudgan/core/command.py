"""Commands: a function of a frozen model of options is a Python function with keywords, and a command of the program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import Options
from cloudgan.core.options import Option, build, options_of

Value = TypeVar("Value")
_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def command(body: Callable[..., Value]) -> Callable[..., Value]:
    """Makes a function of options callable with the keywords of their flags.

    Args:
        body: Its first parameter is annotated with a model of options; others, such as `progress`, are
            keyword-only and have defaults.

    Returns:
        A function of keywords; `model_of` and `body_of` give its parts. `described` adds its signature and
        documentation, which list every flag: the program needs neither.
    """
    hints = get_type_hints(body)
    first, *others = inspect.signature(body).parameters.values()
    model: type[Options] = hints[first.name]
    own = frozenset([one.name for one in others])

    @functools.wraps(body)
    def call(*arguments: Any, **keywords: Any) -> Value:
        passed = {name: keywords.pop(name) for name in own & keywords.keys()}
        name = f"cloudgan.{body.__name__}"
        given = _positional(model, arguments, name)
        if repeated := given.keys() & keywords.keys():
            raise ConfigError(
                f"{name}: {', '.join(sorted(repeated))} was given twice; give it once"
            )
        return body(build(model, given | keywords, command=name), **passed)

    call.__dict__.update(model=model, body=body)
    del call.__wrapped__  # inspect.signature() must not follow it
    return call


def described(function: Callable[..., Value]) -> Callable[..., Value]:
    """Returns a command with the signature, annotations and documentation of its flags."""
    model, body = model_of(function), body_of(function)
    hints = get_type_hints(body)
    _, *others = inspect.signature(body).parameters.values()
    its = signature(model, others, hints)
    function.__signature__ = its  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in its.parameters.values()}
    function.__annotations__["return"] = hints.get("return")
    function.__doc__ = document(model, body)
    return function


def model_of(function: Callable[..., Any]) -> type[Options]:
    """Returns the model of a command's options."""
    found: type[Options] = function.__dict__["model"]
    return found


def body_of(function: Callable[..., Value]) -> Callable[..., Value]:
    """Returns the function that takes the options."""
    found: Callable[..., Value] = function.__dict__["body"]
    return found


def call_with(body: Callable[..., Value], options: Options, offered: Mapping[str, Any]) -> Value:
    """Calls a body with its options, and with those of the offered values that it has parameters for."""
    known = inspect.signature(body).parameters
    return body(options, **{name: value for name, value in offered.items() if name in known})


def _positional(model: type[Options], given: tuple[Any, ...], name: str) -> dict[str, Any]:
    places = [one for one in options_of(model) if one.flag.is_positional]
    if len(given) > len(places):
        known = " ".join(one.argument_name for one in places) or "keywords only"
        raise ConfigError(f"{name} takes {known}, and {len(given)} arguments were given")
    return {one.keyword: value for one, value in zip(places, given, strict=False)}


def signature(
    model: type[Options], others: list[inspect.Parameter], hints: Mapping[str, Any]
) -> inspect.Signature:
    """Returns the signature of the Python function: arguments, then keywords."""
    parameters = [
        inspect.Parameter(
            one.keyword,
            _POSITIONAL if one.flag.is_positional else _KEYWORD,
            default=inspect.Parameter.empty if one.flag.is_required else _default(one),
            annotation=one.info.annotation,
        )
        for one in options_of(model)
    ]
    extra = [one.replace(kind=_KEYWORD, annotation=hints[one.name]) for one in others]
    return inspect.Signature(
        [*parameters, *extra], return_annotation=hints.get("return", inspect.Signature.empty)
    )


def _default(option: Option) -> Any:
    """Keys of a file are not set by default: the file, or the model's own default, has them."""
    return None if option.owner else option.info.get_default(call_default_factory=True)


def document(model: type[Options], body: Callable[..., Any]) -> str:
    """Returns the docstring of the Python function: that of the model, its keywords, and the rest of the body's."""
    text = (inspect.getdoc(model) or "").partition("\n\nExamples:")[0]
    lines = [f"    {one.keyword}: {_sentence(one)}" for one in options_of(model)]
    own = inspect.getdoc(body) or ""
    extra, _, rest = own.partition("Args:\n")[2].partition("\n\n")
    sections = rest or (own[own.index("Raises:") :] if "Raises:" in own and not extra else "")
    return (
        "\n".join(
            [text, "", "Args:", *lines, *filter(None, [extra.rstrip()]), "", sections]
        ).rstrip()
        + "\n"
    )


def _sentence(option: Option) -> str:
    default = f" Default: {option.default}." if option.default else ""
    return f"{option.help[:1].upper()}{option.help[1:].rstrip('.')}.{default}"
