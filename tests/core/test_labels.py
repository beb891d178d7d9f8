"""Names and labels, by the rules of Kubernetes and the clouds."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core import labels
from cloudgan.core.errors import ConfigError
from cloudgan.core.labels import (
    LONGEST_NAME,
    Labels,
    as_value,
    checked_name,
    expiry,
    moment_of,
    spec_digits,
)

# A Kubernetes label's value may also be empty and hold capitals, dots and underlines; Google Cloud
# allows lower case only. What satisfies both is this.
VALUE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

NAMES = st.text(max_size=80) | st.text("-_.@09azAZ", max_size=80)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = LEAVES | st.lists(LEAVES, max_size=4) | st.dictionaries(st.text(max_size=8), LEAVES)


@given(NAMES)
def test_a_value_made_of_any_text_can_be_a_label(text):
    value = as_value(text)
    assert value == "" or VALUE.fullmatch(value)
    assert as_value(value) == value, "what is valid stays as it is"


@given(NAMES, st.integers(1, 63))
def test_a_value_is_never_longer_than_asked(text, longest):
    value = as_value(text, longest)
    assert len(value) <= longest
    assert not value.endswith("-"), "a cut must not leave a hyphen at the end"


def test_an_owner_is_never_an_address_of_mail():
    assert as_value("Marie.Curie@example.org") == "marie-curie"


@given(NAMES, st.integers(0, 99_999_999))
def test_a_name_that_passes_can_name_pods_and_hosts(text, index):
    try:
        name = checked_name(text)
    except ConfigError as error:
        proposed = re.search(r"; --name=(\S+) would do", str(error)).group(1)
        assert checked_name(proposed) == proposed, "what is proposed must be accepted"
        return
    assert name == text
    for host in (f"{name}-{index}", f"{name}-{index}-x7k2p"):
        assert DNS_LABEL.fullmatch(host)


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("My Run", "my-run"),
        ("9lives", "lives"),
        ("run_1", "run-1"),
        ("run\n", "run"),
        ("-", "run"),
        ("", "run"),
        ("é", "run"),
        ("a" * 49, "a" * 48),
        ("a" * 47 + "-b", "a" * 47),
    ],
)
def test_a_name_that_no_host_can_have_is_refused_with_one_that_would_do(name, proposed):
    with pytest.raises(ConfigError) as refused:
        checked_name(name)
    assert str(refused.value).endswith(f"--name={proposed} would do")
    assert refused.value.exit_code == 2


def test_the_longest_name_still_passes():
    assert checked_name("a" * LONGEST_NAME) == "a" * LONGEST_NAME


@given(st.datetimes(min_value=dt.datetime(2000, 1, 1), timezones=st.just(dt.UTC)))  # noqa: DTZ001
def test_an_expiry_can_be_a_label_and_read_back(when):
    text = expiry(when)
    assert VALUE.fullmatch(text)
    read = dt.datetime.strptime(text, "%Y%m%dt%H%M%Sz").replace(tzinfo=dt.UTC)
    assert read == when.replace(microsecond=0)


def test_an_expiry_given_in_another_time_zone_is_the_same_moment():
    geneva = dt.timezone(dt.timedelta(hours=2))
    assert expiry(dt.datetime(2026, 7, 1, 1, 30, tzinfo=geneva)) == "20260630t233000z"


@given(JSON, JSON)
def test_digits_tell_what_was_asked_for_apart(one, other):
    first, second = spec_digits({"asked": one}), spec_digits({"asked": other})
    assert VALUE.fullmatch(first)
    if repr(one) == repr(other):
        assert first == second


def test_digits_do_not_depend_on_the_order_of_keys_and_differ_by_value():
    assert spec_digits({"a": 1, "b": [2]}) == spec_digits({"b": [2], "a": 1})
    assert len({spec_digits({"nodes": n}) for n in range(50)}) == 50


def test_labels_are_named_as_kubernetes_and_google_take_them():
    made = Labels("gan", "marie-curie", "20261128t093000z", "0a1b2c3d4e").as_dict()
    assert list(made) == [labels.RUN, labels.OWNER, labels.EXPIRES, labels.SPEC]
    assert all(KEY.fullmatch(key) and VALUE.fullmatch(value) for key, value in made.items())


def test_a_label_has_the_moment_of_expiry_and_an_invalid_label_has_none():
    noon = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    assert moment_of(expiry(noon)) == noon
    assert moment_of("tomorrow") is None
    assert moment_of(None) is None
