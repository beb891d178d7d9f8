"""Stands in for wandb 0.31.0: its signatures and refusals, and only what cloudgan calls.

https://github.com/wandb/wandb/blob/v0.31.0/wandb/sdk/wandb_init.py, and
wandb_login.py and wandb_run.py beside it, read in the wheel on 2026-11-25.
"""
# ruff: noqa: PLR0917  their signatures

from __future__ import annotations

import os

from kept import kept


def login(
    key=None,
    relogin=None,
    host=None,
    force=None,
    timeout=None,
    verify=True,
    referrer=None,
    prompt=True,
    anonymous=None,
):
    assert key is None, "an explicit key is written into ~/.netrc"
    assert not prompt, "would wait for a key on the terminal"
    with kept():
        return "WANDB_API_KEY" in os.environ


def init(
    entity=None,
    project=None,
    dir=None,  # noqa: A002
    id=None,  # noqa: A002
    name=None,
    notes=None,
    tags=None,
    config=None,
    config_exclude_keys=None,
    config_include_keys=None,
    allow_val_change=None,
    group=None,
    job_type=None,
    mode=None,
    force=None,
    reinit=None,
    resume=None,
    resume_from=None,
    fork_from=None,
    save_code=None,
    tensorboard=None,
    sync_tensorboard=None,
    monitor_gym=None,
    settings=None,
    anonymous=None,
):
    assert resume == "allow"
    assert set(settings) <= {"console", "silent", "finish_timeout"}
    with kept() as runs:
        run = runs.setdefault(id, {"name": name, "log": [], "ends": []})
        run |= {"project": project, "config": config}
        run["ends"].append("RUNNING")
    return Run(id)


class Run:
    def __init__(self, run_id):
        self._id, self._defined = run_id, False

    def define_metric(
        self, name, step_metric=None, step_sync=None, hidden=None, summary=None, overwrite=None
    ):
        self._defined = (name, step_metric) == ("*", "step")

    def log(self, data, step=None, commit=None):
        assert self._defined
        assert step is None, "values below W&B's last own step are dropped"
        with kept() as runs:
            runs[self._id]["log"].append(data)

    def finish(self, exit_code=None):
        with kept() as runs:
            runs[self._id]["ends"].append({0: "FINISHED", 1: "KILLED"}[exit_code])
