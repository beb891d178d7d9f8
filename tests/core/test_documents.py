"""A document that cannot be read is one error with file, place and reason, whatever a parser raises."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from cloudgan.core import documents
from cloudgan.core.documents import MAX_DEPTH, MAX_DIGITS
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.manifest import Manifest
from cloudgan.launch.lifecycle.run_registry import DesiredState
from cloudgan.reports.result import Result
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import Plan
from cloudgan.schema.search import SearchConfig

ALIASES = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdef", "bcdefg", strict=True)
)


class Wheel(BaseModel):
    spokes: int = Field(ge=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 1"),
        ("x: 1\nday: 2026-13-45", "'2026-13-45' is not a valid timestamp at line 2, column 6"),
        ("a: !!int abc", "'abc' is not a valid int at line 1"),
        ("a: !!timestamp x", "'x' is not a valid timestamp"),
        ("a: !!binary \N{LATIN SMALL LETTER E WITH ACUTE}", "base64"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: " + "[" * 3000, f"nested more than {MAX_DEPTH} deep"),
        ("a: " + "[" * 100 + "]" * 100, f"nested more than {MAX_DEPTH} deep"),
        ("".join(f"{'  ' * depth}a:\n" for depth in range(100)), "nested more than"),
        (f"a: {'9' * 5000}", "is not a valid int at line 1, column 4"),
        (f"a: {{b: 0x{'f' * 5000}}}", f"a.b has more than {MAX_DIGITS} digits"),
        ("a: .inf", "run.yaml: a is inf, expected a finite number"),
        ("a: [1, .nan]", "a.1 is nan"),
        ("a\0b", "#x0000"),
        ('a: "\\0"', "a has a NUL character"),
        ('a: "\\ud800"', "surrogate"),
        ("a: !!set {x}", "type set"),
        ("a: !!omap [x: 1]", "type tuple"),
        ("a: &a [*a]", "an alias inside of its own anchor"),
        (ALIASES, "more than 200000 values"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is repeated at line 3"),
        ("a: 1\n---\nb: 2", "another document"),
        ("<<: 5", "expected a mapping"),
        ("? [a]\n: b", "unhashable"),
        ("- 1", "holds list"),
        ("1", "holds int"),
        (b"\xff\xfen\0", "not UTF-8"),
    ],
)
def test_yaml_that_cannot_be_read_is_explained_with_its_file(tmp_path, text, said):
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=r"run\.yaml: ") as refused:
        documents.read_yaml(path)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 600


def test_yaml_with_anchors_dates_and_large_numbers_is_read(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(
        b"\xef\xbb\xbfbase: &base {a: 1}\nb: {<<: *base, a: 2}\nday: 2026-11-22\nn: -1.0e+300"
    )
    found = documents.read_yaml(path)
    assert (found["b"], found["n"], str(found["day"])) == ({"a": 2}, -1e300, "2026-11-22")
    path.write_text("")
    assert documents.read_yaml(path) == {}


def test_an_error_in_a_secret_file_shows_no_part_of_it(tmp_path):
    path = tmp_path / "config"
    for text in ("planted: [", "planted: !!int planted", "planted: 1\nplanted: 2"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="line ") as refused:
            documents.read_yaml(path, secret=True)
        assert "planted" not in str(refused.value)
    with pytest.raises(DataError, match="spokes: Input should be") as refused:
        documents.validated(Wheel, {"spokes": "planted"}, "wheel", secret=True)
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("{'a': 1}", "line 1 column 2"),
        ("[" * 100_000, f"nested more than {MAX_DEPTH} deep"),
        ("[" * 100 + "]" * 100, f"nested more than {MAX_DEPTH} deep"),
        ("9" * 5000, "digits"),
        ("1" + "0" * MAX_DIGITS, f"more than {MAX_DIGITS} digits"),
        ('{"a": NaN}', "a is nan"),
        ('{"a": [Infinity]}', "a.0 is inf"),
        ('{"a": 1e999}', "a is inf"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"\\ud800": 1}', "surrogate"),
        (b'{"a": "\xff"}', "utf-8"),
    ],
)
def test_json_that_cannot_be_read_is_explained(text, said):
    with pytest.raises(DataError, match=r"^answer: not JSON: ") as refused:
        documents.parse_json(text, "answer")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"= =", "line 1"),
        (b"a = " + b"[" * 3000, "nested"),
        (b"a = " + b"9" * 5000, "digits"),
        (b"a = 2026-13-45", "line 1"),
        (b"a = nan", "a is nan"),
        (b'a = "\\u0000"', "NUL"),
        (b"a = 1\nb = '\xff'", "line 2: not UTF-8 text (byte 0xff)"),
    ],
)
def test_toml_that_cannot_be_read_is_explained(tmp_path, text, said):
    path = tmp_path / "gates.toml"
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=r"gates\.toml: ") as refused:
        documents.read_toml(path)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [('a,b\n1,"2', ":2: not CSV"), (f"a\n{'x' * 2**21}\n", ":2: not CSV .*limit")],
)
def test_csv_that_cannot_be_read_is_explained_with_its_line(text, said):
    with pytest.raises(DataError, match=rf"^runs\.csv{said}"):
        list(documents.csv_rows(io.StringIO(text), "runs.csv"))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(documents, "_MAX_LINE", 10)
    lines = documents.bounded_lines(io.StringIO("short\n" + "x" * 50), "bill")
    assert next(lines) == "short\n"
    with pytest.raises(DataError, match="bill:2: the line is longer than 10"):
        next(lines)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is a pipe"),
        (Path.mkdir, "is a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device"),
        (lambda path: path.symlink_to("/dev/null"), "is a device"),
        (lambda path: path.symlink_to("/proc/self/mem"), "a file of the operating system"),
        (lambda path: path.symlink_to("/sys/kernel/mm/transparent_hugepage"), "cannot|folder"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda _: None, "No such file"),
    ],
)
def test_only_regular_files_are_read_and_nothing_blocks(tmp_path, make, said):
    path = tmp_path / "given"
    make(path)
    with pytest.raises(DataError, match=f"given: .*({said})"):
        documents.read_text(path)


@pytest.mark.parametrize("name", ["x" * 300, "nul\0"])
def test_a_name_that_no_file_has_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        documents.read_bytes(tmp_path / name)


def test_a_file_beyond_the_limit_is_refused_with_its_size(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 1001)
    with pytest.raises(DataError, match=r"large: has 1001 bytes; a document has at most 1000"):
        documents.read_bytes(path, limit=1000)
    assert documents.read_bytes(path, limit=1001) == b"x" * 1001


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"spokes": 0}, "spokes is 0: Input should be greater"),
        ({"spokes": "many"}, "spokes is 'many': Input should be a valid integer"),
        ({"spokes": None}, "spokes is empty"),
        ({}, "spokes: Field required"),
        ({"spokes": "x" * 1000}, "x..."),
        ([], "the document: Input should be a valid dictionary"),
    ],
)
def test_a_value_that_does_not_match_its_model_is_named(value, said):
    with pytest.raises(DataError) as refused:
        documents.validated(Wheel, value, "wheel")
    assert said in str(refused.value)
    assert len(str(refused.value)) < 300
    with pytest.raises(DataError, match="not a Wheel"):
        documents.parse_model(json.dumps(value), Wheel, "wheel")


@pytest.mark.parametrize(
    "document", [CostReport, DesiredState, Launch, Manifest, Plan, Result, RunConfig, SearchConfig]
)
def test_a_document_of_another_version_is_refused_by_name(document):
    said = rf"mine\.json: not a {document.__name__}: .*schema_version is 99"
    with pytest.raises(DataError, match=said):
        documents.parse_model(b'{"schema_version": 99}', document, "mine.json")
