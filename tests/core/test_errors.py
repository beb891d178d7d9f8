from __future__ import annotations

from cloudgan.core.errors import UnknownNameError


def test_a_misspelt_name_gets_the_nearest_and_all_there_are():
    message = str(UnknownNameError("preset", "mimi", ["paper", "mini"]))
    assert message == "unknown preset 'mimi'. Did you mean 'mini'? Known: mini, paper."


def test_of_many_names_only_the_nearest_are_listed():
    known = [f"gcp/node-{number}/us/spot" for number in range(300)]
    message = str(UnknownNameError("offer", "gcp/node-7/us", known))
    assert "The nearest of 300" in message
    assert "gcp/node-7/us/spot" in message
    assert len(message) < 400
