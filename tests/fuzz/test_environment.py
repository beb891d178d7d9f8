"""Environment variables with strange values."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from fuzz.harness import Case
from fuzz.mutations import changed_tree, words

VARIABLES = (
    "CLOUDGAN_DATA", "CLOUDGAN_LOG", "CLOUDGAN_TPU", "CLOUDGAN_SUPERVISED", "CLOUDGAN_LIVENESS", "CLOUDGAN_IMAGE",
    "CLOUDGAN_NO_METADATA_SERVER", "CLOUDGAN_GCP_API_KEY", "CI", "TF_CONFIG", "TPU_WORKER_HOSTNAMES", "XDG_DATA_HOME", "HOME", "USER", "LOGNAME", "KUBECONFIG",
    "GEANT4_DATA_DIR", "ONEDNN_MAX_CPU_ISA", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY_ID",
    "AZURE_SUBSCRIPTION_ID", "AZURE_CONFIG_DIR", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "STORAGE_EMULATOR_HOST", "DOCKER_CONFIG", "COLUMNS", "TERM", "NO_COLOR",
    "TZ", "LANG", "LC_ALL", "PATH", "TMPDIR",
)  # fmt: skip
COMMANDS = (
    ("plan", "--config=run.yaml"),
    ("plan", "--config=run.yaml", "--provider=kubernetes", "--store=pvc:x"),
    ("plan", "--config=run.yaml", "--provider=gcp", "--accelerator=v100"),
    ("plan", "--config=run.yaml", "--provider=aws", "--accelerator=l4"),
    ("offers",), ("prices",), ("cost", "runs/mine"), ("train", "--config=run.yaml", "--run=runs/new"), ("simulate", "out.h5", "--showers=1"), ("status",), ("status", "mine"), ("check",), ("setup", "--dry-run"), ("worker",), ("schema", "run.yaml"), ("--help",),
    ("setup", "--dry-run", "--provider=aws"), ("convert", "s3://bucket/showers", "out.h5"), ("convert", "gs://bucket/showers", "out.h5"),
)  # fmt: skip
JSON = ("{}", "[]", "null", "1", '"x"', "{", '{"cluster": {}}', '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 9}}',
        '{"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}', '{"cluster": {"worker": ["a:99999"]}, "task": {"type": 3, "index": "0"}}',
        '{"cluster": [], "task": []}', "[" * 3000, "9" * 5000)  # fmt: skip
CONFIG = '{"cluster": {"worker": ["127.0.0.1:9", "127.0.0.1:10"]}, "task": {"type": "worker", "index": 0}}'


def test_a_strange_variable_is_refused_or_harmless(holds):
    value = st.one_of(words(), st.sampled_from(JSON))

    def case(words_of, name, text):
        written = ("out.h5*", "runs/*", f"{text}*")
        return Case(words_of, environment={name: text}, writes=written, changes="environment")

    holds(st.builds(case, st.sampled_from(COMMANDS), st.sampled_from(VARIABLES), value), 60)


def test_a_strange_cluster_description_is_refused(holds):
    values = st.one_of(
        st.sampled_from(JSON),
        changed_tree(json.loads(CONFIG)).map(lambda made: json.dumps(made[0])),
    )

    def case(text):
        return Case(
            ("train", "--config=run.yaml", "--run=runs/new", "--strategy=multiworker"),
            environment={"TF_CONFIG": text},
            writes=("runs/*",),
        )

    holds(values.map(case), 25)
