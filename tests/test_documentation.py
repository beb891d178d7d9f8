"""Every example in README.md and docs/ is a command line that the program accepts; tests/cli runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import command_options
from api import write_notebook
from cli import write_pages
from cloudgan.cli.program import PROGRAM, Program
from cloudgan.core import machines
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import CloudganError
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.catalog import is_of, load_catalog
from documented import EXAMPLES, PAGES

ROOT = Path(__file__).parents[1]
GENERATED = write_pages.PAGES | {"../examples/notebook.ipynb": write_notebook.notebook}
MENTIONS = {
    path.relative_to(ROOT): found
    for folder in ("cloudgan", "deploy", "k8s", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".txt", ".yaml", ".md", ""} and path.is_file()
    if (found := re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")))
}
"""Files of the program that name pages of the manual, which users are sent to."""
CASES = [pytest.param(words, id=f"{page}: {' '.join(words)}"[:90]) for page, words in EXAMPLES]


def parse(program, words):
    """Parses a command line as the program does, without running the command."""
    inner = program.commands.get(words[0])
    if isinstance(inner, Program):
        return parse(inner, words[1:])
    function = program.find(program.aliases.get(words[0], words[0]))
    options = command_options.parse(function, words[1:])
    if isinstance(options, LaunchRequest) and not options.job:
        assert options.training  # the words after --
    return options


def test_the_pages_have_examples():
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize("words", CASES)
def test_an_example_is_a_valid_command_line(words):
    parse(PROGRAM, words)


@pytest.mark.parametrize("words", CASES)
def test_a_machine_in_an_example_is_on_sale(words):
    given = dict(word.partition("=")[::2] for word in words)
    if offer := given.get("--price-as"):
        assert load_catalog().row(offer)
    name, _, count = given.get("--accelerator", "").partition(":")
    if "--allow-unknown-price" in given:
        assert name in machines.sold(given["--provider"])
    elif name and given.get("--provider") in CLOUDS:
        rows = load_catalog().find(provider=given["--provider"])
        rows = [row for row in rows if is_of(row.accelerator, name) or row.node_type == name]
        assert [row for row in rows if not count or row.accelerator_count == int(count)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:cloudgan|tests|deploy|k8s|benchmarks)/[\w./-]+\.\w+)", text))
    links = set(re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text))
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages == set(re.findall(r"\]\(([\w/-]+\.md)\)", index)), "measurements are not in it"
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert pages | {"index.md"} == set(re.findall(r": ([\w-]+\.md)$", site, re.MULTILINE))


def test_the_manual_is_short():
    """A stranger reads it: what grows beyond this replaces something, or is a measurement."""
    pages = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / name for name in GENERATED}
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    assert words <= 24_000
    for name in ("README.md", "CONTRIBUTING.md"):
        assert (ROOT / name).read_text(encoding="utf-8").count("\n") <= 120


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_what_the_program_says(name):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == GENERATED[name](), "make golden"


@pytest.mark.parametrize("path", [*MENTIONS], ids=str)
def test_a_page_that_the_program_names_exists(path):
    missing = [name for name in MENTIONS[path] if not (ROOT / name).exists()]
    assert not missing


def test_the_table_of_exit_codes_has_every_code_of_an_error():
    def codes(error):
        yield error.exit_code
        for narrower in error.__subclasses__():
            yield from codes(narrower)

    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| (\d+) \| \S", text.partition("## Exit codes")[2], re.MULTILINE)
    assert list(map(int, documented)) == sorted({0, *codes(CloudganError)})


def test_every_test_that_the_security_page_names_exists():
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\S+\.py)::(\w+)`", text)
    assert len(named) > 10
    for path, name in named:
        assert re.search(
            rf"^def {name}\(", (ROOT / "tests" / path).read_text("utf-8"), re.MULTILINE
        ), name


@pytest.mark.parametrize("name", PROGRAM.topics)
def test_help_on_a_topic_is_one_screen(name, cloudgan_here):
    lines = cloudgan_here("help", name).stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_help_on_a_name_that_is_none_suggests_the_nearest_and_lists_the_topics(cloudgan_here):
    said = cloudgan_here("help", "slrum", exits=2).stderr
    assert "Did you mean 'slurm'?" in said
    assert all(topic in said for topic in PROGRAM.topics)


def test_help_on_a_command_is_its_help_and_not_a_topic(cloudgan_here):
    assert cloudgan_here("help", "rm").stdout == cloudgan_here("down", "--help").stdout
