"""Inputs that once ended in a traceback, a hang or silent damage; others are in cli/ and core/."""

import itertools

import pytest
import yaml

from fuzz.harness import DOCUMENTED, Case
from fuzz.mutations import as_json, special
from fuzz.project import BILL, KUBECONFIG
from fuzz.test_damage import READERS, WRITES

DEEP = "[" * 3000
DIGITS = "9" * 5000
LONG = "x" * 300
REFUSED = frozenset({2})

LINES = (
    "simulate out.h5 --energy=nan:nan",
    "simulate out.h5 --energy=1:inf",
    "simulate out.h5 --energy=-5:5",
    "simulate out.h5 --theta=0:1e9",
    "simulate run.yaml/out.h5 --showers=2",
    "simulate /proc/out.h5 --showers=2",
    "simulate  --showers=2",
    "check --nodes=0",
    "plan --config=run.yaml --provider=gcp --accelerator=v100 --budget-usd=1e400",
    f"offers --epochs={10**400}",
    f"generate runs/mine out.h5 --step={DIGITS}",
    "convert file:///etc/passwd out.h5",
    "convert s3://[ out.h5",
    "convert [ out.h5",
    "train --config=run.yaml --checkpoints=file:///tmp/x",
    "train --config=run.yaml --run=/proc/x",
    f"cost runs/{LONG}",
    "cost run.yaml/x",
    "cost runs/\0",
    "cost runs/\udcff",
    f"status {LONG}",
    "down ../../other/runs/theirs",
    "schema -- --json",
)
READ = ("gates.toml", "timings.csv", "own-prices.yaml", "bill.json", "runs/mine/verdict.json", "runs/mine/launch.json",
        "runs/mine/record.jsonl", "runs/mine/run.yaml", "runs/mine/plan.json", "store/manifest.json")  # fmt: skip
TABLES = {
    "a time of 10^400": ("timings.csv", b"n,seconds\n1,1e400\n2,3\n4,5\n8,9\n", REFUSED),
    "labels that are numbers": ("bill.json", as_json(BILL | {"Tags": [1]}), REFUSED),
    "a service that is a number": ("bill.json", as_json(BILL | {"ServiceName": 5}), DOCUMENTED),
}  # fmt: skip
ON_KUBERNETES = READERS["kubeconfig"][0]
MULTIWORKER = "train --config=run.yaml --run=runs/new --strategy=multiworker"
GEANT4 = "simulate out.h5 --engine=geant4 --showers=1"
LOGIN = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
VARIABLES = (
    (("AWS_ENDPOINT_URL_S3",), ("http://[",), "convert s3://bucket/showers out.h5", REFUSED),
    (("AWS_PROFILE",), ("missing",), "convert s3://bucket/showers out.h5", REFUSED),
    (
        ("TF_CONFIG",),
        (
            *(DEEP, DIGITS, "[]", "1", "{", '{"cluster": {"worker": 1}}'),
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "x"}}',
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 5}}',
        ),
        MULTIWORKER,
        REFUSED,
    ),
    (("STORAGE_EMULATOR_HOST",), ("1.5", "http://["), "convert gs://bucket/x out.h5", REFUSED),
    (("CLOUDGAN_LOG",), ("xml",), "offers", REFUSED),
    *(
        ((name,), (LONG, "~missing/x", "/proc/self/mem", "{here}/run.yaml"), line, DOCUMENTED)
        for name, line in (
            ("CLOUDGAN_DATA", "offers"),
            ("KUBECONFIG", ON_KUBERNETES),
            ("GEANT4_DATA_DIR", GEANT4),
        )
    ),
    *(
        (("HOME",), ('{"cluster": {}}', "relative", ""), line, DOCUMENTED)
        for line in ("check", "offers", "train --config=run.yaml --run=runs/new")
    ),
)


def cases():
    for line in LINES:
        yield line, Case(tuple(line.split(" ")), writes=WRITES, exits=frozenset({2, 5, 6}))
    report = {"out.html": special("link to /dev/full")}
    full = Case(("cost", "runs/mine", "--report=out.html"), report, exits=REFUSED)
    yield "a report on a full device", full

    def reading(file, content, exits, line=None, **environment):
        words = (line or READERS[file][0]).split()
        return Case(tuple(words), {file: content}, environment, exits, WRITES)

    no_url = KUBECONFIG | {"clusters": [{"name": "lab", "cluster": {"server": "https://["}}]}
    where = {"KUBECONFIG": "{here}/kubeconfig"}
    text = yaml.safe_dump(no_url).encode()
    yield "a server that is no URL", reading("kubeconfig", text, frozenset({0, 2}), **where)
    for file in READ:
        # A crash may cut the last line of a record short.
        exits = frozenset({0, 2} if file.endswith("record.jsonl") else {2})
        reader = f"offers --run={file[:9]}" if file == "runs/mine/run.yaml" else None
        yield f"{file}: 3,000 brackets", reading(file, DEEP.encode(), exits, reader)
    for name, (file, content, exits) in TABLES.items():
        yield f"{file}: {name}", reading(file, content, exits)
    for names, values, line, exits in VARIABLES:
        for name, value in itertools.product(names, values):
            environment = {name: value} | (LOGIN if name.startswith("AWS") else {})
            case = Case(tuple(line.split()), {}, environment, exits, WRITES)
            yield f"{name}={value:.30} {line}", case


CASES = {f"{name:.100}": case for name, case in cases()}


@pytest.mark.parametrize("name", CASES)
def test_a_known_fault_stays_repaired(name, workplace):
    workplace.run(CASES[name])
