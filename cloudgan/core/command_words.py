"""The words of a command line: which option each one gives. Nothing is converted and nothing runs here."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel

from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.flags import Options, flag
from cloudgan.core.options import Option, options_of

_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)")


class Common(Options):
    """The flags of every command."""

    json_: bool = flag(False, "print the result as one JSON object", "Output")
    verbose: bool = flag(False, "show the basis of the result as well", "Output", letter="v")
    traceback: bool = flag(False, "show where in the program an error arose", "Output")


Given = dict[str, str | list[str]]
"""Text by name of the option: a list for a repeated flag, and for the words after ``--``."""


def read(command: str, model: type[BaseModel], words: Iterable[str]) -> tuple[Given, Given]:
    """Assigns the words behind a command's name to options: those of the model, and those of every command.

    Raises:
        ConfigError: A flag is unknown, has no value or is given twice; an argument is superfluous.
    """
    own = options_of(model)
    known = {one.name: one for one in (*own, *options_of(Common))}
    letters = {one.flag.letter: one for one in known.values() if one.flag.letter}
    found: Given = {}
    pending, only_arguments = deque(words), False
    while pending:
        word = pending.popleft()
        if word == "--" and not only_arguments:
            only_arguments = True
            if pending and (last := next((one for one in own if one.flag.takes_words), None)):
                found[last.name] = list(pending)
                break
            continue
        if only_arguments or not looks_like_flag(word):
            option, text = _argument(command, own, word, found), word
        else:
            option, text = _flag(command, known, letters, word, pending)
        if option.flag.is_repeated:
            before = found.setdefault(option.name, [])
            assert isinstance(before, list)  # noqa: S101 -- only lists are under such a name
            before.append(text)
        elif option.name in found:
            raise ConfigError(f"{option.shown} was given twice; give it once")
        else:
            found[option.name] = text
    common = {one.name for one in options_of(Common)}
    return (
        {name: text for name, text in found.items() if name not in common},
        {name: text for name, text in found.items() if name in common},
    )


def _argument(
    command: str, own: Sequence[Option], word: str, found: Mapping[str, object]
) -> Option:
    places = [one for one in own if one.flag.is_positional]
    for option in places:
        if option.name not in found or option.flag.is_repeated:
            return option
    if any(one.flag.takes_words for one in own):
        raise ConfigError(f"write -- before the command of `{command}`: -- {word}")
    name = word.partition("=")[0].replace("_", "-")
    taken = " ".join(one.argument_name for one in places) or "flags only"
    is_flag = any(one.name == name for one in own)
    raise ConfigError(
        f"`{command}` takes {taken}, and {word!r} is left over."
        + (f" Did you mean '--{word}'?" if is_flag else f" See `{command} --help`.")
    )


def _flag(
    command: str,
    known: Mapping[str, Option],
    letters: Mapping[str, Option],
    word: str,
    pending: deque[str],
) -> tuple[Option, str]:
    written, equals, text = word.partition("=")
    name = written.removeprefix("--").replace("_", "-")
    option = letters.get(written[1:]) if len(written) == len("-f") else known.get(name)
    if option is None:
        denied = known.get(name.removeprefix("no-"))
        if denied and denied.is_switch and name.startswith("no-") and not equals:
            return denied, "false"
        no = "no-" if name.startswith("no-") else ""
        names = [f"--{no if one.is_on else ''}{one.name}" for one in known.values()]
        names += ["--help", "--help-all"]
        raise UnknownNameError(f"flag of `{command}`", written, names)
    if equals:
        return option, text
    if option.is_switch:
        follows = pending and pending[0].lower() in {"true", "false"}
        return option, pending.popleft() if follows else "true"
    if not pending or looks_like_flag(pending[0]):
        raise ConfigError(f"{written} needs a value: --{option.name}={option.placeholder}")
    return option, pending.popleft()


def looks_like_flag(word: str) -> bool:
    """Whether a word is a flag: it begins with a dash, and is neither that alone nor a number."""
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)
