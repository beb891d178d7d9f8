"""What is tried, and when something else than the default wins."""

from __future__ import annotations

import pytest

from cloudgan.core.tuning import Choice, Trial
from cloudgan.training.candidates import Machine, candidates, fastest, ratio

SMALL = Machine(cores=1, physical_cores=1, features=frozenset({"avx2"}), gpus=0)
AVX2 = Machine(cores=2, physical_cores=2, features=frozenset({"avx2"}), gpus=0)
AVX512 = Machine(cores=8, physical_cores=4, features=frozenset({"avx2", "avx512f"}), gpus=0)
GPU = Machine(cores=8, physical_cores=4, features=frozenset({"avx2", "avx512f"}), gpus=2)
EVERY = (SMALL, AVX2, AVX512, GPU)


def tried(machine, *, precision="float32", replicas=1, other_form=None, **asked):
    return candidates(
        machine, precision=precision, replicas=replicas, asked=asked, other_form=other_form
    )


def test_the_default_is_tried_first_and_nothing_twice():
    for machine in EVERY:
        found = tried(machine)
        assert found[0] == Choice()
        assert len(set(map(repr, found))) == len(found) <= 6


def test_older_instructions_are_tried_only_in_float32_and_only_where_there_are_newer_ones():
    limited = [choice for choice in tried(AVX512) if choice.instructions == "AVX2"]
    assert [choice.formulation for choice in limited] == [None]
    for precision in ("bfloat16", "mixed", "float64"):
        assert all(c.instructions == "default" for c in tried(AVX512, precision=precision))
    assert all(c.instructions == "default" for m in (SMALL, AVX2, GPU) for c in tried(m))


def test_the_form_that_is_not_usual_is_tried_on_cpus_where_it_can_run():
    found = tried(AVX512, other_form="phases")
    forms = [(choice.formulation, choice.instructions) for choice in found]
    assert ("phases", "default") in forms
    assert ("phases", "AVX2") in forms
    assert len(found) <= 7
    for choices in (tried(AVX512), tried(GPU, other_form="phases")):
        assert all(choice.formulation != "phases" for choice in choices)


def test_xla_is_tried_on_gpus_only():
    assert {choice.xla for choice in tried(GPU)} == {False, True}
    assert not any(choice.xla for machine in (SMALL, AVX2, AVX512) for choice in tried(machine))


def test_second_threads_of_a_core_are_left_out_in_one_candidate():
    assert [choice.threads for choice in tried(AVX512) if choice.threads] == [4]
    assert not any(choice.threads for choice in tried(AVX2))


def test_replicas_that_share_a_process_are_never_made_to_wait_for_each_other():
    assert all(choice.inter_threads is None for choice in tried(AVX512, replicas=2))


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize(
    "asked",
    [
        {"formulation": "published"},
        {"threads": 2, "inter_threads": None},
        {"instructions": "AVX"},
        {"xla": True},
    ],
)
def test_what_was_asked_for_is_in_every_candidate(machine, asked):
    for choice in tried(machine, **asked):
        assert asked.items() <= choice.model_dump().items()


def trials(*rows):
    kinds = [{}, {"formulation": "published"}, {"inter_threads": 1}]
    return [
        Trial(choice=Choice.model_validate(kind), seconds=row)
        for kind, row in zip(kinds, rows, strict=False)
    ]


def test_the_one_that_is_faster_round_by_round_wins_even_where_the_machine_slows_down():
    found = trials((1.0, 2.0, 4.0), (1.1, 2.2, 4.4), (0.8, 1.6, 3.2))
    assert fastest(found) == found[2]
    assert ratio(found[2], found[0]) == pytest.approx(0.8)


def test_a_gain_that_may_be_chance_changes_nothing():
    found = trials((1.0, 1.0, 1.0), (0.98, 0.99, 0.98))
    assert fastest(found) == found[0]


def test_one_fast_round_of_a_candidate_is_not_enough():
    found = trials((1.0, 1.0, 1.0), (0.1,), (1.2, 0.1, 1.2))
    assert fastest(found) == found[0]


def test_a_candidate_that_died_never_wins():
    fast = Trial(choice=Choice(inter_threads=1), seconds=(0.1, 0.1, 0.1), ended="died with SIGABRT")
    (default,) = trials((1.0, 1.0, 1.0))
    assert fastest([default, fast]) == default


def test_without_the_default_nothing_is_known():
    assert fastest(trials((1.0,), (0.5, 0.5, 0.5))) is None
