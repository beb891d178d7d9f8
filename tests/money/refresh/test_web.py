"""The HTTP client retries busy servers and rejects incomplete responses."""

import io
import socket

import pytest

from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, DataError

KEY = "AIzaNotAKey"


def downloaded(web, url):
    file = io.BytesIO()
    web.download(url, file)
    return file.getvalue()


def test_a_page_is_read_with_its_query(lists, web):
    lists.in_turn(lists.says(b'{"a": 1}'))
    assert web.json(f"{lists.url}/x?b=2") == {"a": 1}
    assert lists.asked == [("/x", {"b": "2"})]


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ((("Retry-After", "7"),), 7),
        ((("Retry-After", "Sat, 21 Nov 2026 12:00:09 GMT"),), 9),
        ((("Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT"),), 0),
        ((("Retry-After", "soon"),), 1),
        ((), 1),
    ],
)
def test_a_busy_server_is_retried_after_retry_after(
    lists,
    web,
    waits,
    headers,
    waited,
):
    lists.date = "Sat, 21 Nov 2026 12:00:00 GMT"
    lists.in_turn(lists.says(status=429, headers=headers), lists.says(b'{"a": 1}'))
    assert web.json(lists.url) == {"a": 1}
    assert waits == [waited]


@pytest.mark.parametrize(("seconds", "waited"), [(2, [2, 2, 2]), (3600, [])])
def test_a_server_that_stays_busy_or_for_an_hour_is_left_alone(lists, web, waits, seconds, waited):
    lists.in_turn(lists.says(status=429, headers=(("Retry-After", str(seconds)),)))
    with pytest.raises(CloudganError, match=r"HTTP 429 .*busy, try again later"):
        web.json(lists.url)
    assert (len(lists.asked), waits) == (len(waited) + 1, waited)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        *((status, CredentialsError, "check the key") for status in (401, 403)),
        (404, CloudganError, "HTTP 404"),
    ],
)
def test_a_rejection_is_reported_at_once_without_the_key(lists, web, status, error, message):
    lists.in_turn(lists.says(status=status))
    with pytest.raises(error, match=message) as raised:
        web.json(f"{lists.url}/skus?key={KEY}")
    assert len(lists.asked) == 1
    assert KEY not in str(raised.value)
    assert f"{lists.url}/skus" in str(raised.value)


def test_an_incomplete_response_is_retried(lists, web, waits):
    lists.in_turn(lists.says(b'{"a": 1}', cut=1), lists.says(b'{"a": 1}'))
    assert web.json(lists.url) == {"a": 1}
    lists.in_turn(lists.says(b"0123456789", cut=5), lists.says(b"0123456789"))
    assert downloaded(web, lists.url) == b"0123456789"
    assert waits == [1, 1]


@pytest.mark.parametrize("body", [b'{"a": 1}', b"1" * 200_000])
def test_incomplete_responses_fail_at_the_last_attempt(lists, web, body):
    lists.in_turn(lists.says(body, cut=1))
    with pytest.raises(DataError, match="is incomplete"):
        web.json(lists.url)
    with pytest.raises(DataError, match="is incomplete"):
        downloaded(web, lists.url)


@pytest.mark.parametrize("body", [b"<html>busy</html>", b'{"a": ', b"[1]", b"null", b"", b"\xff"])
def test_other_json_is_reported(lists, web, body):
    lists.in_turn(lists.says(body))
    with pytest.raises(DataError, match=lists.url):
        web.json(f"{lists.url}?key={KEY}")


def test_an_unreachable_server_names_the_network(web, waits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(CloudganError, match="check the network"):
            web.json(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert waits == [1, 2, 4]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/hostname", "http://[bad", "http://a..b/x", "http://127.0.0.1/x y", "http://"],
)
def test_what_is_no_address_of_the_web_is_refused_at_once(web, waits, url):
    with pytest.raises(ConfigError, match="expected an http or https address"):
        web.json(url)
    assert waits == []
