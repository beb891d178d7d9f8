"""Reads files that others wrote: YAML, TOML, JSON and CSV, with limits; writes models as JSON.

Every exception of a parser becomes one error that names the file, the place in it, and the reason.
Only regular files are opened: a pipe, a device or a file of /proc is refused at once, because it can
block or never end. Values are what a document can mean: finite numbers and texts without NUL.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cloudgan.core import settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    DataError,
    shorten,
    show,
)
from cloudgan.core.masking import secret_in
from cloudgan.core.user_text import check_text

Model = TypeVar("Model", bound=BaseModel)

MAX_BYTES = 2**26
"""Largest document: one that a person or a cloud's tool writes is far smaller than 64 MiB."""
MAX_DEPTH = 64
MAX_DIGITS = 300
"""Digits of a whole number; a longer one is not a float, and Python prints at most 4300 digits."""
_TOO_LARGE = 10**MAX_DIGITS
_MAX_NODES = 200_000
_MAX_LINE = 2**24
_MAX_CELL = 2**20
_MAX_REASON = 300
_MAX_PROBLEMS = 8
_VIRTUAL = (Path("/proc"), Path("/sys"))
"""Their files are regular for the operating system, but have no size, and reading one can block."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_PARSER_ERRORS = (
    yaml.YAMLError,
    csv.Error,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""What parsers raise for bad input: besides their own errors those of the types they construct."""


def open_regular(path: Path, error: type[CloudganError] = DataError) -> BinaryIO:
    """Opens a regular file for reading; never blocks.

    Raises:
        CloudganError: Of the type `error`: the file is missing, unreadable or not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb", closefd=True)
    except IsADirectoryError as problem:
        raise _not_regular(path, "a folder", error) from problem
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{shorten(str(path), 300)}: cannot be read ({reason})") from problem
    mode = os.fstat(file.fileno()).st_mode
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "")
    if not kind and any(path.resolve().is_relative_to(folder) for folder in _VIRTUAL):
        kind = "a file of the operating system"
    if kind:
        file.close()
        raise _not_regular(path, kind, error)
    return file


def check_login_file(variable: str) -> None:
    """Refuses a pipe, device or folder as a login's file, which `variable` names: a library would wait for it."""
    named = settings.variable(variable)
    if named and os.path.exists(named):  # noqa: PTH110  False for a name that is too long too
        open_regular(Path(named), CredentialsError).close()


def _not_regular(path: Path, kind: str, error: type[CloudganError]) -> CloudganError:
    return error(f"{path}: is {kind}; give a regular file")


def read_bytes(
    path: Path | Traversable, error: type[CloudganError] = DataError, *, limit: int = MAX_BYTES
) -> bytes:
    """Reads a regular file of at most `limit` bytes, or a file of the package.

    Raises:
        CloudganError: Of the type `error`: the file is missing, not regular, or larger.
    """
    if not isinstance(path, Path):
        return path.read_bytes()  # a file of the package
    with open_regular(path, error) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise error(f"{path}: has {size} bytes; a document has at most {limit}")
        try:
            content = file.read(size)
        except OSError as problem:
            raise error(f"{path}: cannot be read ({problem.strerror})") from problem
    return content


def read_text(
    path: Path | Traversable, error: type[CloudganError] = DataError, *, secret: bool = False
) -> str:
    """Reads a UTF-8 file, with or without a byte order mark.

    Args:
        path: The file.
        error: Type of the errors.
        secret: The file is the place of a login, such as a kubeconfig; any other may hold none.
    """
    content = read_bytes(path, error)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(
            f"{path}: line {line}: not UTF-8 text (byte {content[problem.start]:#04x})"
        ) from problem
    if not secret and isinstance(path, Path) and secret_in(text):
        for number, row in enumerate(text.splitlines(), start=1):
            check_text(f"{path}: line {number}", row)
    return text


def read_yaml(
    path: Path, error: type[CloudganError] = ConfigError, *, secret: bool = False
) -> dict[str, Any]:
    """Reads a mapping from YAML; an empty file is an empty one. No message shows a part of a `secret` file."""
    return parse_mapping(read_text(path, error, secret=secret), str(path), error, secret=secret)


def parse_mapping(
    text: str, source: str, error: type[CloudganError] = ConfigError, *, secret: bool = False
) -> dict[str, Any]:
    """Parses a YAML document that is a mapping; an empty one is empty."""
    found = parse_yaml(text, source, error, secret=secret)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise error(f"{source}: holds {type(found).__name__}, expected keys and values")
    return found


def parse_yaml(
    text: str, source: str, error: type[CloudganError] = ConfigError, *, secret: bool = False
) -> Any:
    """Parses one YAML document without application tags."""
    with translated("YAML", source, error, secret=secret):
        loader = _YamlLoader(text)
        try:
            found = loader.get_single_data()
        finally:
            loader.dispose()
    with translated("", source, error, secret=secret):
        return _checked(found)


def parse_package_yaml(text: str) -> Any:
    """Parses a YAML document of the package, which needs none of the limits for what others wrote."""
    # libyaml, where PyYAML was built with it, is several times as fast.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def parse_json(
    content: str | bytes,
    source: str,
    error: type[CloudganError] = DataError,
    *,
    any_text: bool = False,
) -> Any:
    """Parses JSON; NaN and Infinity, which are not JSON, are refused.

    Args:
        content: Of a file, or the answer of a server.
        source: File or request.
        error: Type of the errors.
        any_text: Accept texts with NUL and other characters that no document has: an API repeats
            what a program printed.
    """
    if len(content) > MAX_BYTES:
        raise error(f"{source}: has {len(content)} bytes; JSON has at most {MAX_BYTES}")
    with translated("JSON", source, error):
        return _checked(json.loads(content), any_text=any_text)


def read_toml(path: Path | Traversable) -> dict[str, Any]:
    """Reads a TOML file."""
    text = read_text(path, ConfigError)
    with translated("TOML", str(path), ConfigError):
        found = tomllib.loads(text)
    with translated("", str(path), ConfigError):
        _checked(found)
    return found


def csv_rows(lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """Parses CSV.

    Yields:
        The number of each row's last line, from 1, and its cells; blank lines are left out.
    """
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(lines, strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as problem:
            raise DataError(f"{source}:{rows.line_num}: not CSV ({problem})") from problem
        if row is None:
            return
        if row:
            yield rows.line_num, row


def bounded_lines(text: TextIO, source: str) -> Iterator[str]:
    """Yields the lines of an open text file, however large the file is."""
    number = 0
    while line := text.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise DataError(f"{source}:{number}: the line is longer than {_MAX_LINE} characters")
        yield line


def validated(
    model: type[Model],
    value: Any,
    source: str,
    error: type[CloudganError] = DataError,
    *,
    secret: bool = False,
    text: str = "",
) -> Model:
    """Validates a parsed value of the document, or of the line of a document, `source`; for `text` see `translated`."""
    with translated("", source, error, secret=secret, text=text):
        found = model.model_validate(value)
        check_booleans(value, found)
        return found


def check_booleans(given: Any, found: Any, key: str = "") -> None:
    """Refuses true and false for a number of a parsed document, which pydantic reads as 1 and 0, and the reverse."""
    if isinstance(given, dict):
        values = found if isinstance(found, dict) else getattr(found, "__dict__", {})
        for name, value in given.items():
            # Text is neither, and most values are text.
            if name in values and (not isinstance(value, str) or isinstance(values[name], bool)):
                check_booleans(value, values[name], f"{key}.{name}".removeprefix("."))
    elif isinstance(given, list | tuple) and isinstance(found, list | tuple):
        for one, other in zip(given, found, strict=False):
            check_booleans(one, other, key)
    elif isinstance(found, int | float) and isinstance(given, bool) != isinstance(found, bool):
        expected = "a number" if isinstance(given, bool) else "true or false"
        raise ConfigError(f"{key} is {show(given)}; expected {expected}")


def parse_model(content: str | bytes, model: type[Model], source: str) -> Model:
    """Parses and validates JSON."""
    with translated(f"a {model.__name__}", source):
        return model.model_validate_json(content)


def read_json(path: Path, model: type[Model]) -> Model:
    """Reads a model from a JSON file."""
    return parse_model(read_bytes(path), model, str(path))


def write_json(path: Path, model: BaseModel) -> None:
    """Writes a model atomically."""
    write_atomic(path, (model.model_dump_json(indent=2) + "\n").encode())


def explain(problem: Mapping[str, Any], *, secret: bool = False) -> str:
    """Returns key, value (unless it is secret) and reason of one error of pydantic."""
    key = shorten(".".join(map(str, problem["loc"]))) or "the document"
    message = str(problem["msg"]).removeprefix("Value error, ")
    has_value = problem["loc"] and problem["type"] not in {"missing", "extra_forbidden"}
    if secret or not has_value or isinstance(problem["input"], dict | list):
        return f"{key}: {message}"
    value = "empty" if problem["input"] is None else show(problem["input"])
    return f"{key} is {value}: {message}"


@contextlib.contextmanager
def translated(
    kind: str,
    source: str,
    error: type[CloudganError] = DataError,
    *,
    secret: bool = False,
    text: str = "",
) -> Iterator[None]:
    """Turns what a parser or validator raises in its block into `error`.

    Args:
        kind: Such as ``JSON`` or ``a Plan``.
        text: A YAML document whose lines and columns the message names; empty: none.
    """
    subject = f"not {kind}: " if kind else ""
    try:
        yield
    except ValidationError as problem:
        errors = problem.errors(include_url=False)
        # A list that is too short only because its items are not valid is no fault of its own.
        inside = {each["loc"][:-n] for each in errors for n in range(1, len(each["loc"]))}
        found = [one for one in errors if one["type"] != "too_short" or one["loc"] not in inside]
        listed = "; ".join(
            f"{_mark(text, each['loc'])}{explain(each, secret=secret)}"
            for each in found[:_MAX_PROBLEMS]
        )
        more = f"; and {len(found) - _MAX_PROBLEMS} more" if len(found) > _MAX_PROBLEMS else ""
        raise error(f"{source}: {subject}{listed}{more}") from problem
    except CloudganError as problem:  # from a validator, which knows no file
        raise error(f"{source}: {subject}{problem}") from problem
    except RecursionError as problem:
        raise error(f"{source}: {subject}nested more than {MAX_DEPTH} deep") from problem
    except _PARSER_ERRORS as problem:
        raise error(f"{source}: {subject}{_reason(problem, secret=secret)}") from problem


def _mark(text: str, keys: Iterable[str | int]) -> str:
    """Returns line and column of a key in a YAML document, or of what lacks it; "" without a text."""
    if not text:
        return ""
    node, mark = yaml.compose(text, Loader=_YamlLoader), None
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            of = {name.value: (name, value) for name, value in node.value}
        else:
            of = {number: (value, value) for number, value in enumerate(node.value)}
        if key not in of:
            break
        mark, node = of[key][0].start_mark, of[key][1]
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _reason(problem: Exception, *, secret: bool) -> str:
    mark = getattr(problem, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if secret:
        return place or type(problem).__name__
    text = f"{getattr(problem, 'problem', '')} at {place}" if mark else str(problem)
    return shorten(" ".join(text.split()), _MAX_REASON)


def _checked(document: Any, *, any_text: bool = False) -> Any:
    """Returns a parsed document whose values are within the limits.

    Raises:
        ValueError: One is not; the message names its key.
    """
    pending: list[tuple[Any, tuple[object, ...]]] = [(document, ())]
    count = 0
    while pending:
        value, path = pending.pop()
        count += 1
        if len(path) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict):
            pending += ((key, (*path, "key")) for key in value if not isinstance(key, str))
            pending += ((each, (*path, key)) for key, each in value.items())
            for key in () if any_text else value:
                _check_text(key if isinstance(key, str) else "", path)
        elif isinstance(value, list):
            pending += ((each, (*path, number)) for number, each in enumerate(value))
        elif not (any_text and isinstance(value, str)):
            _check_scalar(value, path)
    return document


def _check_scalar(value: object, path: tuple[object, ...]) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{_place(path)} is {value}, expected a finite number")
    elif isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise ValueError(f"{_place(path)} has more than {MAX_DIGITS} digits")
    elif isinstance(value, bytes | tuple | set):
        kind = type(value).__name__
        raise ValueError(f"{_place(path)} is of the type {kind}, expected a plain value")


def _check_text(text: str, path: tuple[object, ...]) -> None:
    if "\0" in text:
        raise ValueError(f"{_place(path)} has a NUL character")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"{_place(path)} has half of a surrogate pair, which is not a character")


def _place(path: tuple[object, ...]) -> str:
    return shorten(".".join(map(str, path))) or "the document"


class _YamlLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """SafeLoader with limits, which names the line of every fault."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Composes a node; counts what aliases repeat, so that a small file cannot become huge."""
        event, is_alias, before = self.peek_event(), self.check_event(yaml.AliasEvent), self._nodes
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _fault(f"nested more than {MAX_DEPTH} deep", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and node not in self._sizes:
            raise _fault("an alias inside of its own anchor", event)
        self._nodes += self._sizes[node] if is_alias else 1
        if self._nodes > _MAX_NODES:
            raise _fault(f"more than {_MAX_NODES} values", event)
        self._sizes.setdefault(node, self._nodes - before)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Composes a mapping without repeated keys."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                raise _fault(f"the key {show(key.value)} is repeated", key)
            seen.add((key.tag, key.value))
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Constructs a value; a scalar that is none of its type is a fault of its line."""
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except _PARSER_ERRORS as problem:
            kind = node.tag.rpartition(":")[2]
            reason = f"{show(node.value)} is not a valid {kind}"
            raise _fault(reason, node) from problem


def _fault(reason: str, place: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, reason, place.start_mark)
