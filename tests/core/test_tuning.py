"""What was found once is remembered, for just that machine and that kind of run."""

from __future__ import annotations

import pytest

from cloudgan.core import tuning
from cloudgan.core.tuning import Choice, Finding, Key, Trial, batch_class

KEY = Key(
    processor="EPYC",
    cores=2,
    versions={"tensorflow": "2.21.0"},
    networks="paper",
    image_shape=(51, 51, 25),
    precision="float32",
    batch_class=16,
)
BEST = Choice(instructions="AVX2", inter_threads=1)
FINDING = Finding(
    key=KEY,
    found="2026-11-21T10:00:00Z",
    batch=1,
    took_seconds=31.5,
    choice=BEST,
    trials=(Trial(choice=Choice(), seconds=(2.0, 2.1)), Trial(choice=BEST, seconds=(1.0, 1.1))),
)


def test_what_was_written_is_read_again(tmp_path):
    tuning.write(tmp_path, FINDING)
    assert tuning.read(tmp_path, KEY) == (FINDING, "")


@pytest.mark.parametrize(
    "other",
    [
        {"cores": 4},
        {"versions": {"tensorflow": "2.22.0"}},
        {"precision": "bfloat16"},
        {"batch_class": 64},
        {"accelerators": ("V100",)},
        {"asked": {"threads": 1}},
    ],
)
def test_it_says_nothing_about_another_machine_version_or_kind_of_run(tmp_path, other):
    tuning.write(tmp_path, FINDING)
    assert tuning.read(tmp_path, KEY.model_copy(update=other)) == (None, "")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is damaged"),
        ("{", "is damaged"),
        (FINDING.model_dump_json()[:-20], "is damaged"),
        (FINDING.model_dump_json().replace('"schema_version":1', '"schema_version":0'), "version"),
        (FINDING.model_dump_json().replace("EPYC", "Xeon"), "about something else"),
    ],
)
def test_a_damaged_older_or_strange_file_is_ignored_with_a_sentence(tmp_path, content, said):
    path = tuning.path_of(tmp_path, KEY)
    path.parent.mkdir()
    path.write_text(content)
    found, sentence = tuning.read(tmp_path, KEY)
    assert found is None
    assert str(path) in sentence
    assert said in sentence
    assert "ignored" in sentence


def test_a_file_that_nobody_may_read_is_ignored_with_a_sentence(tmp_path):
    tuning.path_of(tmp_path, KEY).mkdir(parents=True)
    found, sentence = tuning.read(tmp_path, KEY)
    assert found is None
    assert "cannot be read" in sentence


def test_only_what_differs_from_tensorflows_own_is_set():
    assert Choice().environment() == {}
    assert Choice(formulation="published", threads=2, inter_threads=1).environment() == {}
    assert Choice(instructions="AVX2", xla=True).environment() == {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
    }


def test_a_choice_is_told_in_words():
    assert Choice().describe() == "usual kernels"
    every = Choice(
        formulation="published", instructions="AVX2", threads=4, inter_threads=2, xla=True
    )
    assert (
        every.describe()
        == "published kernels, instructions AVX2, 4 threads, 2 operations at a time, XLA"
    )


@pytest.mark.parametrize(
    ("batch", "found"), [(1, 1), (3, 1), (4, 4), (15, 4), (16, 16), (63, 16), (64, 64), (300, 256)]
)
def test_batches_of_about_one_size_share_a_finding(batch, found):
    assert batch_class(batch) == found
