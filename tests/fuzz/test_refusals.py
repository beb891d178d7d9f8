"""A command that ends with 2 has changed no file: every command and every kind of refusal, beside a finished run."""

from collections.abc import Iterator

import h5py
import pytest

from cloudgan.core.options import Option
from command_options import arguments, flags
from fuzz.commands import ALWAYS, SIGNATURES, VALID
from fuzz.harness import REFUSED, Case
from fuzz.project import write_showers

RUN = "runs/mine"
LONG = "x" * 300


def _cut(path):
    write_showers(path)
    with path.open("r+b") as file:
        file.truncate(3000)


def _of_ten(path):
    with h5py.File(path, "w") as file:
        file["ECAL"] = [[1.0]] * 10


def _folder(path):
    path.mkdir(parents=True)
    (path / "thesis.txt").write_text("chapter 1")


CONFIG = b"name: mine\ndata: {path: showers.h5}\nmodel: {preset: smoke}\n"
ANYWHERE = {
    "an unknown flag": ("--nosuch=1",),
    "surplus arguments": ("surplus", "surplus", "surplus", "surplus"),
    "a switch that is neither on nor off": ("--json=maybe",),
    "a single hyphen": ("-json",),
}
"""Words that no command takes."""
OF_KIND = {
    "a text for a number": (int, "many"),
    "a fraction for a whole number": (int, "1.5"),
    "a number of 5,000 digits": (int, "9" * 5000),
    "no number": (int, ""),
    "a text for a decimal number": (float, "1h"),
    "nan": (float, "nan"),
    "minus one": (float, "-1"),
}
"""Values that no flag of a kind takes."""
OF_FLAG = {
    "a missing run.yaml": ("config", "missing.yaml", {}),
    "a folder for a run.yaml": ("config", "runs", {}),
    "a run.yaml that does not parse": ("config", "bad.yaml", {"bad.yaml": b"a: [1"}),
    "a run.yaml with an unknown key": ("config", "bad.yaml", {"bad.yaml": CONFIG + b"nosuch: 1\n"}),
    "a run.yaml with a wrong unit": ("config", "bad.yaml", {"bad.yaml": CONFIG + b"training: {max_seconds: 3h}\n"}),
    "a run.yaml with a bad shape": ("config", "bad.yaml", {"bad.yaml": CONFIG.replace(b"smoke", b"nosuch")}),
    "missing showers": ("data", "missing.h5", {}),
    "showers that are a text": ("data", "run.yaml", {}),
    "showers cut short": ("data", "cut.h5", {"cut.h5": _cut}),
    "showers of another layout": ("data", "other.h5", {"other.h5": _of_ten}),
    "showers at a URL that does not parse": ("data", "s3://[", {}),
    "a folder without showers": ("data", "runs", {}),
    "a run in place of a file": ("run", "run.yaml", {}),
    "a run below a file": ("run", "run.yaml/x", {}),
    "a run with a long name": ("run", LONG, {}),
    "a run in a folder of other files": ("run", "papers", {"papers": _folder}),
    "a run that is another one": ("run", RUN, {}),
    "a report of an unknown kind": ("report", "out.docx", {}),
    "a report in place of a folder": ("report", "runs", {}),
    "a missing price file": ("price_file", "missing.yaml", {}),
    "a damaged price file": ("price_file", "bad.yaml", {"bad.yaml": b"nodes: 3"}),
    "a run of the name of a trained one": ("name", "mine", {}),
    "a name that leaves the folder": ("name", "../x", {}),
    "checkpoints at an unknown URL": ("checkpoints", "ftp://x/y", {}),
    "a store at an unknown URL": ("store", "ftp://x/y", {}),
    "an output of an unknown kind": ("output", "out.docx", {}),
    "an output that exists": ("output", "showers.h5", {}),
    "an output that is a folder": ("output", "runs", {}),
    "an output below a file": ("output", "run.yaml/x.h5", {}),
    "a target that exists": ("target", "store", {}),
    "a step that is no step": ("step", "first", {}),
    "energies upside down": ("energy", "100:10", {}),
    "a grid of no cells": ("grid", "0x0", {}),
    "a duration without a unit": ("gang_timeout", "20", {}),
}  # fmt: skip
"""Values of flags and arguments by name."""
DAMAGED = {
    "a record with a line of another program": (f"{RUN}/record.jsonl", b"{}\n{}\n"),
    "a record that is a text": (f"{RUN}/record.jsonl", b"hello\nhello\n"),
    "a run.yaml of the run that does not parse": (f"{RUN}/run.yaml", b"a: [1"),
    "a run.yaml of the run with other keys": (f"{RUN}/run.yaml", b"nosuch: 1"),
    "a launch.json that does not parse": (f"{RUN}/launch.json", b"{"),
    "a plan.json that does not parse": (f"{RUN}/plan.json", b"{"),
    "a checkpoint cut short": (f"{RUN}/checkpoints/step-000000004.npz", b"PK"),
}
"""Files of the run that a command cannot use."""


def cases(command: str, signature: tuple[Option, ...]) -> Iterator[Case]:
    """Yields the refusals of a command."""
    always = ALWAYS.get(command, ())
    valid = (*VALID.get(command, ()), *always)
    words = (*command.split(), *valid)
    known, places = flags(signature), arguments(signature)

    def case(name, words, files=()):
        return Case(tuple(words), dict(files), writes=("*",), changes=name)

    def with_value(name: str, keyword: str, text: str, files=()) -> Iterator[Case]:
        for flag in known:
            if flag.keyword == keyword:
                kept = [each for each in valid if each.partition("=")[0] != flag.shown]
                yield case(name, (*command.split(), *kept, f"{flag.shown}={text}"), files)
        for at, argument in enumerate(places):
            if argument.keyword == keyword and at < len(valid):
                kept = (*valid[:at], text, *valid[at + 1 :])
                yield case(name, (*command.split(), *kept), files)

    for name, extra in ANYWHERE.items():
        yield case(name, (*words, *extra))
    if places:
        yield case("no argument", (*command.split(), *always))
    for flag in [flag for flag in known if flag.name != "json"][:1]:
        yield case("a misspelt flag", (*words, f"{flag.shown[:-1]}=1"))
        yield case("a flag given twice", (*words, f"{flag.shown}=1", f"{flag.shown}=1"))
    for flag in [flag for flag in known if flag.choices][:1]:
        yield from with_value("a choice that there is not", flag.keyword, "nosuch")
    for name, (kind, text) in OF_KIND.items():
        for flag in [flag for flag in known if flag.kinds == (kind,) and not flag.text][:1]:
            yield from with_value(name, flag.keyword, text)
    for name, (keyword, text, files) in OF_FLAG.items():
        yield from with_value(name, keyword, text, files)
    if any("mine" in word for word in words) or "--config=run.yaml" in words:
        for name, (file, content) in DAMAGED.items():
            yield case(name, words, {file: content})
    yield Case(words, {}, {"CLOUDGAN_LOG": "xml"}, writes=("*",), changes="a strange variable")


@pytest.mark.parametrize("command", SIGNATURES)
def test_a_refused_command_has_changed_no_file(command, workplace):
    codes = [workplace.run(case) for case in cases(command, SIGNATURES[command])]
    assert codes.count(REFUSED) > 4


@pytest.mark.parametrize(
    "words",
    [
        *("status mine", "status mine --json", "logs mine", "compare runs/mine", "offers --run=runs/mine"),
        *("plan --config=run.yaml", "deploy --config=run.yaml --dry-run", "schema run.yaml", "status"),
        "convert showers.h5 --verify",
    ],
)  # fmt: skip
def test_a_command_that_only_reads_changes_no_file(words, workplace):
    workplace.run(Case(tuple(words.split()), exits=frozenset({0, REFUSED})))
