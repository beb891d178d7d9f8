"""Inputs that once ended in a traceback, a hang or silent damage, each with its documented exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from fuzz.harness import Case
from fuzz.mutations import SPECIAL_FILES, special
from fuzz.project import BILL, KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEP = "[" * 3000
DIGITS = "9" * 5000
RUN = "runs/mine"
WRITES = ("runs/*", "out.h5", "*.html")


def with_kubeconfig(**keys: object) -> bytes:
    return yaml.safe_dump(KUBECONFIG | keys).encode()


def flags() -> Iterator[tuple[str, Case]]:
    """Command lines: numbers beyond the clock, the disk or the parser, and names beyond the file system."""
    lines = {
        "simulate 10^12 showers": "simulate out.h5 --showers=1000000000000",
        "a number of 5,000 digits": f"simulate out.h5 --showers={DIGITS}",
        "a seed of 2^200": f"simulate out.h5 --showers=2 --seed={2**200}",
        "a negative seed": "simulate out.h5 --showers=2 --seed=-1",
        "no showers": "simulate out.h5 --showers=0",
        "an energy that is not a number": "simulate out.h5 --energy=nan:nan",
        "an infinite energy": "simulate out.h5 --energy=1:inf",
        "a negative energy": "simulate out.h5 --energy=-5:5",
        "an angle beyond the detector": "simulate out.h5 --theta=0:1e9",
        "an output of 300 characters": f"simulate {'x' * 300}.h5 --showers=2",
        "an output below a file": "simulate run.yaml/out.h5 --showers=2",
        "an output below /proc": "simulate /proc/out.h5 --showers=2",
        "an empty output": "simulate  --showers=2",
        "check for -1 nodes": "check --nodes=-1",
        "check for no nodes": "check --nodes=0",
        "a deadline beyond the calendar": "plan --config=run.yaml --max-hours=1e300",
        "a budget beyond a float": "plan --config=run.yaml --provider=gcp --accelerator=v100 --budget-usd=1e400",
        "a wait beyond the calendar": "plan --config=run.yaml --gang-timeout=99999999999d",
        "epochs beyond a float": f"offers --epochs={10**400}",
        "nodes of 5,000 digits": f"plan --config=run.yaml --nodes={DIGITS}",
        "accelerators of 5,000 digits": f"plan --config=run.yaml --provider=gcp --accelerator=v100:{DIGITS}",
        "a prediction of 5,000 digits": f"cost --fit=timings.csv --predict={DIGITS}",
        "a prediction for 10^400": f"cost --fit=timings.csv --predict={10**400}",
        "digits that are no digits": "cost --fit=timings.csv --predict=\u00b2",
        "a step of 5,000 digits": f"generate runs/mine out.h5 --step={DIGITS}",
        "a file URL": "convert file:///etc/passwd out.h5",
        "a file URL for checkpoints": "train --config=run.yaml --checkpoints=file:///tmp/x",
        "a URL that does not parse": "convert s3://[ out.h5",
        "a run of 300 characters": f"cost runs/{'x' * 300}",
        "a run below a file": "cost run.yaml/x",
        "train below a file": "train --config=run.yaml --run=run.yaml/x",
        "train in a folder of 300 characters": f"train --config=run.yaml --run={'x' * 300}",
        "train below /proc": "train --config=run.yaml --run=/proc/x",
        "train in no folder": "train --config=run.yaml --run=",
        "data of 300 characters": f"train --preset=smoke --data={'x' * 300}",
        "a run name of 300 characters": f"status {'x' * 300}",
        "a run name that leaves the folder": "down ../../other/runs/theirs",
        "a glob that does not parse": "convert [ out.h5",
        "a misspelt command": "trian",
        "a misspelt flag": "plan --conifg=run.yaml",
        "an argument that looks like a flag": "schema -- --json",
    }  # fmt: skip
    for name, line in lines.items():
        yield name, Case(tuple(line.split(" ")), writes=WRITES, exits=frozenset({2, 5, 6}))
    yield (
        "a report on a device",
        Case(
            ("cost", RUN, "--report=out.html"),
            {"out.html": special(SPECIAL_FILES["link to /dev/full"])},
            exits=frozenset({2}),
        ),
    )
    yield "a NUL in a name", Case(("cost", "runs/\0"), exits=frozenset({2}))
    yield "a NUL in data", Case(("train", "--preset=smoke", "--data=\0"), exits=frozenset({2}))
    yield "a name that is not text", Case(("cost", "runs/\udcff"), exits=frozenset({2}))


def documents() -> Iterator[tuple[str, Case]]:
    """YAML, JSON, TOML and CSV that parsers reject with errors of their own, or read for ever."""
    contents = {
        "an impossible date": b"name: 2026-02-30",
        "a forced type": b"training: {epochs: !!int x}",
        "a forced time": b"name: !!timestamp x",
        "a forced set": b"name: !!set [1]",
        "3,000 brackets": DEEP.encode(),
        "an integer of 5,000 digits": f"training: {{epochs: {DIGITS}}}".encode(),
        "an unhashable key": b"{[1]: 2}",
        "a mapping key": b"? {a: 1}\n: 2",
        "a merge of a number": b"<<: 1",
        "an endless alias": b"a: &a [*a, *a]",
        "a billion laughs": b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)),
        "an object of Python": b"!!python/object/apply:os.system [id]",
        "UTF-16": "name: x".encode("utf-16"),
        "a lone surrogate": b'name: "\\ud800"',
        "a NUL": b"name: a\x00b",
        "a list": b"- 1",
        "a number": b"1",
    }  # fmt: skip
    for name, content in contents.items():
        for words in (("plan", "--config=run.yaml"), ("train", "--config=run.yaml")):
            yield (
                f"run.yaml: {name}, {words[0]}",
                Case(words, {"run.yaml": content}, exits=frozenset({2})),
            )
        yield f"kubeconfig: {name}", in_cluster(content)
    for name, content in {
        "a number for contexts": with_kubeconfig(contexts=1),
        "a list of numbers": with_kubeconfig(clusters=[1]),
        "a cluster that is a list": with_kubeconfig(clusters=[{"name": "lab", "cluster": []}]),
        "a current context that is a list": with_kubeconfig(**{"current-context": ["lab"]}),
        "a current context that is a number": with_kubeconfig(**{"current-context": 1}),
        "a server that is a mapping": with_kubeconfig(clusters=[{"name": "lab", "cluster": {"server": {"a": 1}}}]),
        "a server that is no URL": with_kubeconfig(clusters=[{"name": "lab", "cluster": {"server": "https://["}}]),
        "names that are numbers": with_kubeconfig(contexts=[{"name": 1, "context": {"cluster": 2, "user": [3]}}]),
        "a plugin that is a list": with_kubeconfig(users=[{"name": "me", "user": {"exec": ["x"]}}]),
        "a command that is a number": with_kubeconfig(users=[{"name": "me", "user": {"exec": {"command": 1}}}]),
        "a namespace that is a list": with_kubeconfig(contexts=[{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": ["x"]}}]),
        "a hint that is a list": with_kubeconfig(users=[{"name": "me", "user": {"exec": {"command": "missing", "installHint": ["x"]}}}]),
    }.items():  # fmt: skip
        yield f"kubeconfig: {name}", in_cluster(content)
    read_by = {
        "gates.toml": (
            "validate",
            "--generated=showers.h5",
            "--reference=showers.h5",
            "--gate=gates.toml",
        ),
        "timings.csv": ("cost", "--fit=timings.csv", "--predict=64"),
        "own-prices.yaml": ("offers", "--price-file=own-prices.yaml"),
        "bill.json": ("cost", RUN, "--billing-export=bill.json"),
        f"{RUN}/verdict.json": ("cost", RUN),
        f"{RUN}/launch.json": ("cost", RUN),
        f"{RUN}/record.jsonl": ("cost", RUN),
        f"{RUN}/run.yaml": ("offers", f"--run={RUN}"),
        f"{RUN}/plan.json": ("status", "mine"),
        "store/manifest.json": ("convert", "store", "out.h5"),
    }
    for file, words in read_by.items():
        for name, content in {
            "3,000 brackets": DEEP.encode(),
            "3,000 braces": b'{"a":' * 3000,
            "an integer of 5,000 digits": b'{"passed": ' + DIGITS.encode() + b"}",
            "only digits": DIGITS.encode(),
            "an impossible date": b"x = 2026-02-30",
        }.items():
            # A crash may cut the last line of a record short.
            exits = frozenset({0, 2} if file.endswith("record.jsonl") else {2})
            yield f"{file}: {name}", Case(words, {file: content}, writes=WRITES, exits=exits)
        for kind in ("FIFO", "link to /dev/zero", "folder"):
            made = {file: special(SPECIAL_FILES[kind])}
            yield f"{file}: {kind}", Case(words, made, writes=WRITES, exits=frozenset({2}))
    yield (
        "CSV: a cell of 5,000 digits",
        Case(
            read_by["timings.csv"],
            {"timings.csv": f"n,seconds\n{DIGITS},1\n2,3\n4,5\n".encode()},
            exits=frozenset({2}),
        ),
    )
    yield (
        "CSV: a time of 10^400",
        Case(
            read_by["timings.csv"],
            {"timings.csv": b"n,seconds\n1,1e400\n2,3\n4,5\n8,9\n"},
            exits=frozenset({2}),
        ),
    )
    yield (
        "CSV: times of 10^308",
        Case(
            read_by["timings.csv"],
            {"timings.csv": b"n,seconds\n1,1e308\n2,1e308\n4,1e308\n8,1e308\n"},
        ),
    )
    yield (
        "a bill of 10^308",
        Case(
            read_by["bill.json"],
            {"bill.json": b"\n".join([json.dumps(BILL | {"BilledCost": 1e308}).encode()] * 3)},
            writes=WRITES,
        ),
    )
    yield (
        "labels that are numbers",
        Case(
            read_by["bill.json"],
            {"bill.json": json.dumps(BILL | {"Tags": [1]}).encode()},
            exits=frozenset({2}),
        ),
    )
    yield (
        "labels 3,000 deep",
        Case(
            read_by["bill.json"],
            {"bill.json": json.dumps(BILL | {"Tags": DEEP}).encode()},
            exits=frozenset({2}),
        ),
    )
    yield (
        "a service that is a number",
        Case(
            read_by["bill.json"],
            {"bill.json": json.dumps(BILL | {"ServiceName": 5}).encode()},
            writes=WRITES,
        ),
    )
    yield (
        "a time before the calendar",
        Case(
            read_by["bill.json"],
            {
                "bill.json": json.dumps(
                    BILL | {"ChargePeriodEnd": "0001-01-01T00:00:00+14:00"}
                ).encode()
            },
            writes=WRITES,
        ),
    )


def in_cluster(kubeconfig: bytes) -> Case:
    words = ("plan", "--config=run.yaml", "--provider=kubernetes", "--store=pvc:x")
    return Case(
        words,
        {"kubeconfig": kubeconfig},
        {"KUBECONFIG": "{here}/kubeconfig"},
        exits=frozenset({0, 2}),
    )


def environment() -> Iterator[tuple[str, Case]]:
    """Variables that a library, not cloudgan, refused."""
    for name, value in {
        "AWS_ENDPOINT_URL": "not a URL", "AWS_ENDPOINT_URL_S3": "http://[", "AWS_DEFAULT_REGION": "not a region", "AWS_PROFILE": "missing",
        "AWS_CONFIG_FILE": "{here}/showers.h5",
    }.items():  # fmt: skip
        yield (
            f"{name}={value}",
            Case(
                ("convert", "s3://bucket/showers", "out.h5"),
                environment={name: value, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"},
                exits=frozenset({2}),
            ),
        )
    for value in (
        DEEP,
        DIGITS,
        "[]",
        "1",
        "{",
        '{"cluster": {"worker": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "x"}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 5}}',
    ):
        yield (
            f"TF_CONFIG={value[:60]}",
            Case(
                ("train", "--config=run.yaml", "--run=runs/new", "--strategy=multiworker"),
                environment={"TF_CONFIG": value},
                writes=WRITES,
                exits=frozenset({2}),
            ),
        )
    for name, words in {
        "CLOUDGAN_DATA": ("offers",),
        "KUBECONFIG": ("plan", "--config=run.yaml", "--provider=kubernetes", "--store=pvc:x"),
        "GEANT4_DATA_DIR": ("simulate", "out.h5", "--engine=geant4", "--showers=1"),
    }.items():
        for value in ("x" * 300, "~missing/x", "/proc/self/mem", "{here}/run.yaml"):
            yield f"{name}={value[:30]}", Case(words, environment={name: value})
    for value in ("1.5", "http://["):
        host = {"STORAGE_EMULATOR_HOST": value}
        words = ("convert", "gs://bucket/showers", "out.h5")
        yield f"STORAGE_EMULATOR_HOST={value}", Case(words, environment=host, exits=frozenset({2}))
    for words in (("check",), ("offers",), ("train", "--config=run.yaml", "--run=runs/new")):
        for value in ('{"cluster": {}}', "relative", ""):
            yield f"HOME={value} {words[0]}", Case(words, environment={"HOME": value})
    yield (
        "CLOUDGAN_LOG=xml",
        Case(("offers",), environment={"CLOUDGAN_LOG": "xml"}, exits=frozenset({2})),
    )


CASES = dict([*flags(), *documents(), *environment()])


@pytest.mark.parametrize("name", CASES)
def test_a_known_fault_stays_repaired(name, workplace):
    fault = workplace.run(CASES[name])
    assert not fault, f"{fault.cause}\n{fault.details}"
