"""Synchronous Downpour that is killed at each of its messages, and started again."""

from __future__ import annotations

import shutil

import pytest

from parallel.ranks_in_turns import Killed, Turns
from parallel.world_in_turns import centre, config_of, run_world


@pytest.mark.parametrize(
    ("steps", "options", "messages"),
    [
        pytest.param(7, {"master_optimizer": "adam"}, 44, id="adam, one worker ends first"),
        pytest.param(8, {}, 49, id="sgd", marks=pytest.mark.slow),
    ],
)
def test_a_synchronous_run_killed_at_any_message_and_resumed_has_the_bits_of_one_undisturbed(
    tmp_path, monkeypatch, steps, options, messages
):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # only one rank runs
    config = config_of(
        workers=2, steps=steps, synchronous=True, checkpoint={"every_steps": 1}, **options
    )
    undisturbed = Turns(3)
    run_world(undisturbed, tmp_path / "undisturbed", config)
    step, weights = centre(tmp_path / "undisturbed")
    assert step == steps
    assert undisturbed.sent == messages
    wrong = []
    for message in range(1, messages + 1):
        path = tmp_path / "run"
        with pytest.raises(Killed):
            run_world(Turns(3, kill_at=message), path, config)
        run_world(Turns(3), path, config)
        found, resumed = centre(path)
        if (found, resumed.tobytes()) != (step, weights.tobytes()):
            wrong.append(message)
        shutil.rmtree(path)
    assert wrong == []
