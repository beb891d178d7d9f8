"""The command lines in README.md, docs/ and the topics of `cloudgan help`, for tests that hold for all of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cloudgan.cli.program import PROGRAM

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACEHOLDER = re.compile(r"\.\.\.|\|")


def commands_in(text, spaces):
    """Yields the words of each `cloudgan` command in the blocks of a text that are indented so far."""
    text = re.sub(r" *\\\n *", " ", text)
    for line in re.findall(rf"^ {{{spaces},}}(cloudgan .*)$", text, re.MULTILINE):
        typed = line.partition("   ")[0].partition(" > ")[0]  # no text beside it, and no shell
        words = shlex.split(typed, comments=True)
        for command in " ".join(shlex.quote(word) for word in words).split("';'"):
            yield [word for word in shlex.split(command)[1:] if not PLACEHOLDER.search(word)]


def _examples():
    for page in PAGES:
        for words in commands_in(page.read_text(encoding="utf-8"), 4):
            yield page.name, words
    for name, topic in PROGRAM.topics.items():
        for words in commands_in(topic.read_text(encoding="utf-8"), 2):
            yield f"help {name}", words


EXAMPLES = list(_examples())
"""Page and words of each command line."""
