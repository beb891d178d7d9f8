"""Stands in for mlflow 3.18.0: its signatures, its limits, and only what cloudgan calls.

https://github.com/mlflow/mlflow/blob/v3.18.0/mlflow/tracking/client.py,
mlflow/tracking/fluent.py and mlflow/utils/validation.py, read in the wheel on 2026-11-25.
"""
# ruff: noqa: PLR0917  their signatures

from __future__ import annotations

import re
from types import SimpleNamespace

from kept import kept


def set_experiment(experiment_name=None, experiment_id=None, trace_location=None):
    with kept():
        return SimpleNamespace(experiment_id=f"of {experiment_name}")


class _Param:
    def __init__(self, key, value):
        assert re.fullmatch(r"[\w./ :-]{1,250}", key), key
        assert len(value) <= 6000
        self.key, self.value = key, value


class _Metric:
    def __init__(self, key, value, timestamp, step, model_id=None):
        assert re.fullmatch(r"[\w./ :-]{1,250}", key), key
        assert isinstance(timestamp, int)
        self.key, self.value, self.timestamp, self.step = key, float(value), timestamp, step


entities = SimpleNamespace(Param=_Param, Metric=_Metric)


class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None, workspace_store_uri=None):
        pass

    def search_runs(
        self,
        experiment_ids,
        filter_string="",
        run_view_type=1,
        max_results=1000,
        order_by=None,
        page_token=None,
    ):
        key, value = re.fullmatch(r"tags\.`([^`]+)` = '([^']+)'", filter_string).groups()
        with kept() as runs:
            return [
                SimpleNamespace(info=SimpleNamespace(run_id=run_id))
                for run_id, run in runs.items()
                if run["experiment"] in experiment_ids and run["tags"].get(key) == value
            ]

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        with kept() as runs:
            run_id = f"server-{len(runs)}"
            runs[run_id] = {"experiment": experiment_id, "tags": tags, "name": run_name}
            runs[run_id] |= {"config": {}, "log": [], "ends": ["RUNNING"]}
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def update_run(self, run_id, status=None, name=None):
        assert status == "RUNNING"
        with kept() as runs:
            runs[run_id]["ends"].append(status)

    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
        assert len(params) <= 100
        with kept() as runs:
            for one in params:
                assert runs[run_id]["config"].setdefault(one.key, one.value) == one.value
            if metrics:
                (step,) = {one.step for one in metrics}
                values = {one.key: one.value for one in metrics}
                runs[run_id]["log"].append({"step": step} | values)

    def set_terminated(self, run_id, status=None, end_time=None):
        assert status in {"FINISHED", "FAILED", "KILLED"}
        with kept() as runs:
            runs[run_id]["ends"].append(status)
