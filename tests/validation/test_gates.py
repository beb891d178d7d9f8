from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.validation.comparison import Measured, compare
from cloudgan.validation.gates import Verdict, judge, load_gates


@pytest.fixture(scope="module")
def perfect(reference):
    return compare(reference, reference)


@pytest.fixture(scope="module")
def untrained(noise, reference):
    return compare(noise, reference)


def with_value(comparison, name, value):
    return comparison.model_copy(update={name: Measured(value=value, floor=1.0)})


def failed(verdict):
    return [check.name for check in verdict.checks if not check.passed]


def test_the_packaged_gates_are_the_published_acceptance():
    gates = load_gates().gates
    assert gates.response_within == 0.08
    assert gates.profile_z_at_most == 0.12
    assert gates.untrained_profile_z_more_than == 0.5
    assert gates.hits_within == 0.20
    assert gates.angle_slope_at_least == 0.5


def test_a_perfect_sample_passes_and_nothing_is_missing(perfect, untrained):
    verdict = judge(perfect, untrained=untrained)
    assert verdict.passed
    assert len(verdict.checks) == 7
    assert verdict.not_learned == ()


def test_an_untrained_network_fails_and_its_tails_are_named(untrained):
    verdict = judge(untrained)
    assert not verdict.passed
    assert "longitudinal profile, mean error" in failed(verdict)
    assert any("the lateral tails" in sentence for sentence in verdict.not_learned)


@pytest.mark.parametrize(
    ("name", "good", "bad", "check"),
    [
        ("profile_z", 0.119, 0.121, "longitudinal profile, mean error"),
        ("hits_ratio", 1.19, 1.21, "hits above 0.3 MeV"),
        ("hits_ratio", 0.81, 0.79, "hits above 0.3 MeV"),
        ("angle_slope", 0.51, 0.49, "measured against requested angle, slope"),
    ],
)
def test_each_gate_closes_at_its_limit(perfect, name, good, bad, check):
    assert judge(with_value(perfect, name, good)).passed
    verdict = judge(with_value(perfect, name, bad))
    assert failed(verdict) == [check]
    assert any(sentence.startswith(check) for sentence in verdict.not_learned)


@pytest.mark.parametrize(
    ("value", "passes"), [(0.925, True), (1.075, True), (0.91, False), (1.09, False)]
)
def test_the_response_must_hold_in_each_bin(perfect, value, passes):
    rows = list(perfect.bins)
    rows[1] = rows[1].model_copy(update={"response_ratio": Measured(value=value, floor=1.0)})
    verdict = judge(perfect.model_copy(update={"bins": tuple(rows)}))
    assert verdict.passed is passes
    if not passes:
        assert failed(verdict) == ["energy response, 40-70 GeV"]


def test_a_network_that_was_good_before_training_shows_no_learning(perfect):
    verdict = judge(perfect, untrained=perfect)
    assert failed(verdict) == ["longitudinal profile untrained, mean error"]
    assert verdict.not_learned == ()


def test_an_unknown_number_does_not_pass(perfect):
    verdict = judge(with_value(perfect, "angle_slope", None))
    assert not verdict.passed
    assert any("unknown" in sentence for sentence in verdict.not_learned)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("tail_ratio", 12.0, "lateral tails"),
        ("rms_x_ratio", 1.4, "width along x"),
        ("rms_y_ratio", 0.7, "width along y"),
        ("last_layer_ratio", 3.0, "last layer"),
        ("profile_x", 0.4, "profile along x"),
        ("profile_y", 0.4, "profile along y"),
        ("angle_slope", 0.7, "slope 0.70 instead of 1"),
    ],
)
def test_what_no_gate_asks_for_is_still_told_with_numbers(perfect, name, value, word):
    verdict = judge(with_value(perfect, name, value))
    assert verdict.passed
    assert len(verdict.not_learned) == 1
    assert word in verdict.not_learned[0]
    assert "two halves of the reference: 1" in verdict.not_learned[0]


def test_a_limit_that_chance_alone_breaks_is_told(perfect):
    noisy = perfect.model_copy(update={"profile_z": Measured(value=0.1, floor=0.3)})
    assert any("too few showers to judge" in note for note in judge(noisy).notes)


def test_limits_read_like_words(perfect):
    limits = [check.limit for check in judge(perfect).checks]
    assert limits == ["0.92 to 1.08"] * 3 + ["at most 0.12", "0.8 to 1.2", "at least 0.5"]


def test_the_verdict_survives_json(perfect, untrained):
    verdict = judge(untrained, untrained=perfect)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_own_gates_are_read_and_bad_ones_explained(tmp_path, perfect):
    packaged = load_gates()
    text = "schema_version = 1\n[gates]\n"
    text += "\n".join(f"{k} = {v}" for k, v in packaged.gates.model_dump().items())
    text += "\n[not_learned]\n"
    text += "\n".join(f"{k} = {v}" for k, v in packaged.not_learned.model_dump().items())
    own = tmp_path / "gates.toml"
    own.write_text(text.replace("hits_within = 0.2", "hits_within = 0.01"))
    strict = load_gates(own)
    assert failed(judge(with_value(perfect, "hits_ratio", 1.05), strict)) == ["hits above 0.3 MeV"]
    own.write_text(text.replace("hits_within", "hit_within"))
    with pytest.raises(ConfigError, match=r"gates\.hit"):
        load_gates(own)
    own.write_text("no = = toml")
    with pytest.raises(ConfigError, match="not a TOML file"):
        load_gates(own)
    with pytest.raises(ConfigError, match="no gates to read there"):
        load_gates(tmp_path / "missing.toml")
