"""Flags and arguments of every command: misspelt, of a wrong type, out of range, hostile."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from cloudgan.cli.program import PROGRAM
from command_options import arguments, flags, options_by_command
from fuzz.harness import Case
from fuzz.mutations import words

ALWAYS = {
    "simulate": ("--showers=2",),
    "demo": ("--data=missing.h5", "--run=run.yaml/x"),
    "bench step": ("--against=missing",),
    "bench input": ("--data=missing.h5",),
    "bench generate": ("--run=missing",),
    "deploy": ("--dry-run",),
    "setup": ("--dry-run",),
    "image": ("out",),
}
VALID = {
    "simulate": ("out.h5",),
    "convert": ("showers.h5", "out.h5"),
    "train": ("--config=run.yaml",),
    "generate": ("runs/mine", "out.h5"),
    "export": ("runs/mine", "out"),
    "validate": ("--generated=showers.h5", "--reference=showers.h5"),
    "schema": ("run.yaml",),
    "plan": ("--config=run.yaml",),
    "deploy": ("--config=run.yaml",),
    "status": ("mine",), "logs": ("mine",), "cancel": ("mine",), "down": ("mine",), "adopt": ("mine",),
    "cost": ("runs/mine",),
    "compare": ("runs/mine",),
    "offers": ("--run=runs/mine",),
}  # fmt: skip
WRITES = ("out*", "runs/*", "*.html", "*.md", "*.csv")


SIGNATURES = options_by_command()


@pytest.fixture(autouse=True)
def unattended(monkeypatch):
    """Lets `serve` end at once: with valid flags it waits for Ctrl-C."""
    monkeypatch.setattr("cloudgan.api.run_pages.RunServer.wait", lambda self: None)


def one_bad_flag(signature):
    """The valid command line with one flag of the command set to a bad value, or misspelt."""
    known = [flag for flag in flags(signature) if flag.name != "follow"]
    flag = st.sampled_from(known)
    given = st.builds(lambda flag, text: f"{flag.shown}={text}", flag, words())
    bare = st.builds(lambda flag: flag.shown, flag)
    typo = st.builds(
        lambda flag, at: flag.shown[:at] + flag.shown[at + 1 :], flag, st.integers(0, 8)
    )
    return st.one_of(given, given, given, given, bare, typo, words())


@pytest.mark.parametrize("command", SIGNATURES)
def test_a_bad_flag_is_refused_or_harmless(command, holds):
    always = ALWAYS.get(command, ())
    valid = VALID.get(command, ()) + always

    def case(word, keep, as_json):
        name = word.partition("=")[0]
        kept = tuple(each for each in (valid if keep else always) if each.partition("=")[0] != name)
        json = ("--json",) if as_json and name != "--json" else ()
        written = (*WRITES, word.partition("=")[2] or word)
        return Case((*command.split(), *kept, word, *json), writes=written, changes="a bad flag")

    keep = st.sampled_from((True, True, True, False))
    holds(st.builds(case, one_bad_flag(SIGNATURES[command]), keep, st.booleans()), 8)


def test_a_bad_argument_is_refused_or_harmless(holds):
    takers = [
        name for name, signature in SIGNATURES.items() if arguments(signature) and name in VALID
    ]

    def case(command, text, rest):
        given = (text, *(VALID[command][1:] if rest else ()), *ALWAYS.get(command, ()))
        return Case((command, *given), writes=(*WRITES, text, f"{text}*"), changes="a bad argument")

    holds(st.builds(case, st.sampled_from(takers), words(), st.booleans()), 20)


def test_any_words_are_refused_or_harmless(holds):
    safe = [name for name in PROGRAM.commands if name not in {"demo", "bench", "simulate"}]
    names = st.sampled_from([*safe, "help", "--version", "trian", ""])

    def case(name, rest):
        return Case((name, *ALWAYS.get(name, ()), *rest), writes=("*",), changes="random words")

    holds(st.builds(case, names, st.lists(words(), max_size=4)), 20)
