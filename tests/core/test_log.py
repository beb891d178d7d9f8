from __future__ import annotations

import io
import json
import logging

import pytest

from cloudgan.core import log


@pytest.fixture(autouse=True)
def as_it_was():
    logger = logging.getLogger("cloudgan")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], level, logger.propagate = before
    logger.setLevel(level)


def test_json_lines_carry_time_level_logger_message_and_traceback():
    stream = io.StringIO()
    log.configure("json", stream=stream)
    logger = logging.getLogger("cloudgan.data")
    logger.warning("%d showers\nlost", 3)
    try:
        int("why")
    except ValueError:
        logger.exception("no")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["time"].endswith("+00:00")
    assert (first["level"], first["logger"]) == ("warning", "cloudgan.data")
    assert first["message"] == "3 showers\nlost"
    assert "ValueError: invalid literal" in second["traceback"]


def test_text_is_one_line_for_people_and_quieter_levels_are_left_out():
    stream = io.StringIO()
    log.configure("text", stream=stream)
    logging.getLogger("cloudgan.data").info("not printed")
    logging.getLogger("cloudgan.data").warning("printed")
    assert stream.getvalue() == "cloudgan: WARNING cloudgan.data: printed\n"


def test_configuring_again_replaces_the_earlier_setting():
    first, second = io.StringIO(), io.StringIO()
    log.configure(stream=first)
    log.configure(stream=second)
    logging.getLogger("cloudgan").warning("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
