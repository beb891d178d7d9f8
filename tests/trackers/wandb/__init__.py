"""Stands in for wandb 0.31.0: its signatures and refusals, and only what cloudgan calls.

https://github.com/wandb/wandb/blob/v0.31.0/wandb/sdk/wandb_init.py, and
wandb_login.py and wandb_run.py beside it, read in the wheel on 2026-11-25.
"""
# ruff: noqa: PLR0917  their signatures

from __future__ import annotations

import os

from kept import kept

LOGIN = "key relogin host force timeout verify referrer prompt anonymous"
INIT = """entity project dir id name notes tags config config_exclude_keys config_include_keys
allow_val_change group job_type mode force reinit resume resume_from fork_from save_code tensorboard
sync_tensorboard monitor_gym settings anonymous"""


def login(**given):
    assert set(given) <= set(LOGIN.split())
    assert given.get("key") is None, "an explicit key is written into ~/.netrc"
    assert not given.get("prompt", True), "would wait for a key on the terminal"
    with kept():
        return "WANDB_API_KEY" in os.environ


def init(**given):
    assert set(given) <= set(INIT.split())
    assert given.get("resume") == "allow"
    assert set(given["settings"]) <= {"console", "silent", "finish_timeout"}
    with kept() as runs:
        run = runs.setdefault(given["id"], {"name": given["name"], "log": [], "ends": []})
        run |= {"project": given["project"], "config": given["config"]}
        run["ends"].append("RUNNING")
    return Run(given["id"])


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
