"""Changed documents, damaged bytes, special files, bad words and strange variables: refused, or harmless."""

import io
import json

import numpy as np
import pytest
import yaml
from hypothesis import strategies as st

from cloudgan.cli.program import PROGRAM
from cloudgan.core.errors import CloudganError
from cloudgan.training import checkpoint as checkpoints
from command_options import arguments, flags
from fuzz.commands import ALWAYS, SIGNATURES, VALID
from fuzz.harness import MOST_LINES, Case
from fuzz.mutations import (
    SPECIAL_FILES,
    as_json,
    as_yaml,
    changed_hdf5,
    changed_npz,
    changed_table,
    changed_tree,
    damaged,
    special,
    words,
)
from fuzz.project import BILL, framed

WRITES = ("out*", "runs/*", "prices/*", "*.html", "*.md", "*.csv")
ENVIRONMENT = {
    "kubeconfig": {"KUBECONFIG": "{here}/kubeconfig"},
    "prices/prices/gcp.csv": {"CLOUDGAN_DATA": "{here}/prices"},
    "aws-config": {"AWS_CONFIG_FILE": "{here}/aws-config"},
}
CHECKPOINT = "runs/mine/checkpoints/step-000000004.npz"
RUN = ("cost runs/mine", "compare runs/mine", "offers --run=runs/mine", "generate runs/mine out.h5", "validate runs/mine")  # fmt: skip
LAUNCHED = ("status mine", "logs mine", "cancel mine", "down mine", "adopt mine")
ON_GCP = "plan --config=run.yaml --provider=gcp --accelerator=v100"
TRAIN = "train --config=run.yaml --run=runs/"
SHOWERS = (
    "convert {} out.h5",
    "validate --generated={} --reference={}",
    "train --preset=smoke --data={} --run=runs/new",
    "plan --preset=smoke --data={}",
)
STORE = tuple(words.replace("{}", "store") for words in SHOWERS)
READERS = {
    "run.yaml": ("train --config=run.yaml", "plan --config=run.yaml", ON_GCP, "deploy --config=run.yaml --dry-run"),
    "runs/mine/run.yaml": (*RUN, f"{TRAIN}mine", f"{TRAIN}new --init-from=runs/mine"),
    "runs/mine/record.jsonl": RUN[:4],
    "runs/mine/launch.json": RUN[:2],
    "runs/mine/verdict.json": RUN[:2],
    "runs/mine/plan.json": (*LAUNCHED, "cost runs/mine", "status"),
    "runs/mine/pods/state.json": LAUNCHED,
    "kubeconfig": ("plan --config=run.yaml --provider=kubernetes --store=pvc:x",),
    "timings.csv": ("cost --fit=timings.csv --predict=64",),
    "own-prices.yaml": ("offers --price-file=own-prices.yaml", "plan --config=run.yaml --price-file=own-prices.yaml"),
    "gates.toml": ("validate --generated=showers.h5 --reference=showers.h5 --gate=gates.toml",),
    "bill.json": ("cost runs/mine --billing-export=bill.json",),
    "bill.csv": ("cost runs/mine --billing-export=bill.csv",),
    "prices/prices/gcp.csv": ("offers", "prices", ON_GCP, "cost runs/mine"),
    "aws-config": ("plan --config=run.yaml --provider=aws --accelerator=l4", "check --provider=aws"),
    "showers.h5": tuple(words.replace("{}", "showers.h5") for words in SHOWERS),
    "store/manifest.json": STORE,
    "store/part-00000-values.npy": STORE,
    "store/part-00001-offsets.npy": STORE,
    CHECKPOINT: ("generate runs/mine out.h5 --showers=2", "validate runs/mine", "export runs/mine out.export", f"{TRAIN}mine", f"{TRAIN}new --init-from=runs/mine", "bench generate --run=runs/mine"),
    "showers.tfrecord": tuple(words.replace("{}", "showers.tfrecord") for words in SHOWERS),
}  # fmt: skip
"""Commands that read each file of the project."""


def case_of(name, line, content, as_json_too):
    words_of = (*line.split(), *["--json"] * as_json_too)
    environment = ENVIRONMENT.get(name, {})
    changes = f"{name}: {content[:60] if isinstance(content, bytes) else 'special'!r}"
    return Case(words_of, {name: content}, environment, writes=WRITES, changes=changes)


def cases_of(name, contents):
    """Cases of a strategy of contents, for the commands that read the file."""
    lines = st.sampled_from(READERS[name])
    return st.builds(case_of, st.just(name), lines, contents, st.booleans())


BYTES = {name: 3 for name in READERS if name not in {"showers.tfrecord", "store/part-00001-offsets.npy"}}  # fmt: skip
BYTES |= {"showers.h5": 15, "store/manifest.json": 8, CHECKPOINT: 8}


@pytest.mark.parametrize("name", BYTES)
def test_damaged_bytes(name, holds, project):
    holds(cases_of(name, damaged((project / name).read_bytes())), BYTES[name])


@pytest.mark.parametrize(
    ("name", "size"), [("showers.h5", 2400), ("store/part-00000-values.npy", 80)]
)
def test_damaged_headers_and_trailers(name, size, holds, project):
    """Most bytes are cells; the structure is in the first and in the last ones."""
    valid = (project / name).read_bytes()
    head = damaged(valid[:size], of=False).map(lambda content: content + valid[size:])
    tail = damaged(valid[-size:], of=False).map(lambda content: valid[:-size] + content)
    holds(cases_of(name, st.one_of(head, tail)), 15)


BINARY = ("showers.h5", "store/part-00000-values.npy", "store/part-00001-offsets.npy", CHECKPOINT)
"""Files with readers of their own; those of documents are in core/test_documents.py."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in BINARY for kind in SPECIAL_FILES),
        *((name, "FIFO") for name in READERS if name not in {*BINARY, "showers.tfrecord"}),
    ],
)
def test_a_special_file(name, kind, workplace):
    line = READERS[name][sorted(SPECIAL_FILES).index(kind) % len(READERS[name])]
    workplace.run(case_of(name, line, special(kind), as_json_too=False))


DOCUMENTS = (
    "run.yaml", "kubeconfig", "bill.json", "runs/mine/run.yaml", "runs/mine/launch.json", "runs/mine/verdict.json", "runs/mine/plan.json",
    "runs/mine/pods/state.json", "store/manifest.json",
)  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_changed_keys_and_values(name, holds, project):
    is_yaml = name.endswith(".yaml") or name == "kubeconfig"
    text = (project / name).read_text()
    tree = yaml.safe_load(text) if is_yaml else json.loads(text)
    holds(cases_of(name, changed_tree(tree).map(as_yaml if is_yaml else as_json)), 8)


@st.composite
def changed_record(draw, lines):
    number = draw(st.integers(0, len(lines) - 1))
    tree = draw(changed_tree(json.loads(lines[number])))
    kept = [line for at, line in enumerate(lines) if at != number or draw(st.booleans())]
    return b"\n".join([*kept[:number], as_json(tree), *kept[number:], b""])


@st.composite
def changed_metadata(draw, content):
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    tree = draw(changed_tree(json.loads(arrays["meta.json"].tobytes())))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays | {"meta.json": np.frombuffer(as_json(tree), np.uint8)})
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "change", "count"),
    [
        ("runs/mine/record.jsonl", lambda content: changed_record(content.splitlines()), 12),
        ("timings.csv", changed_table, 8),
        ("bill.csv", changed_table, 8),
        ("prices/prices/gcp.csv", changed_table, 8),
        ("showers.h5", changed_hdf5, 30),
        (CHECKPOINT, changed_npz, 12),
        (CHECKPOINT, changed_metadata, 12),
    ],
)
def test_changed_lines_cells_members_and_datasets(name, change, count, holds, project):
    holds(cases_of(name, change((project / name).read_bytes())), count)


def test_strange_records(holds):
    records = st.lists(st.binary(max_size=60), max_size=3)
    found = records.map(lambda contents: b"".join(map(framed, contents)))
    holds(cases_of("showers.tfrecord", found), 12)


class Weight:
    """Stub of a variable of a network."""

    def __init__(self, shape):
        self.shape, self.dtype, self.assigned = shape, "float32", None

    def assign(self, value):
        self.assigned = np.asarray(value)


@pytest.mark.parametrize("change", [damaged, changed_npz, changed_metadata])
def test_a_damaged_checkpoint_assigns_nothing_invalid_once_tensorflow_is_loaded(
    change, holds, project, tmp_path
):
    path = tmp_path / "step-000000004.npz"

    def read(content):
        path.write_bytes(content)
        weights = {"generator/00": Weight((2, 3)), "discriminator/00": Weight((4,))}
        said = ""
        try:
            checkpoint = checkpoints.read_checkpoint(path)
            checkpoints.restore_part(checkpoint, "generator", [weights["generator/00"]])
            checkpoints.restore(checkpoint, weights)
        except CloudganError as error:
            said = str(error)
        assert len(said.splitlines()) <= MOST_LINES
        for weight in weights.values():
            if weight.assigned is not None:
                assert weight.assigned.shape == weight.shape
                assert np.isfinite(weight.assigned).all()

    holds(change((project / CHECKPOINT).read_bytes()), 40, read)


@pytest.fixture
def unattended(monkeypatch):
    """Lets `serve` end at once: with valid flags it waits for Ctrl-C."""
    monkeypatch.setattr("cloudgan.launch.operations.run_pages.RunServer.wait", lambda self: None)


def one_bad_flag(signature):
    """A flag of the command with a bad value, without one, or misspelt."""
    flag = st.sampled_from([flag for flag in flags(signature) if flag.name != "follow"])
    given = st.builds(lambda flag, text: f"{flag.shown}={text}", flag, words())
    bare = flag.map(lambda flag: flag.shown)
    typo = st.builds(lambda name, at: name[:at] + name[at + 1 :], bare, st.integers(0, 8))
    return st.one_of(given, given, given, given, bare, typo, words())


@pytest.mark.usefixtures("unattended")
@pytest.mark.parametrize("command", SIGNATURES)
def test_a_bad_flag(command, holds):
    always = ALWAYS.get(command, ())
    valid = VALID.get(command, ()) + always

    def case(word, keep, as_json):
        name = word.partition("=")[0]
        kept = tuple(each for each in (valid if keep else always) if each.partition("=")[0] != name)
        json = ("--json",) if as_json and name != "--json" else ()
        return Case(
            (*command.split(), *kept, word, *json),
            writes=(*WRITES, word.partition("=")[2] or word),
        )

    keep = st.sampled_from((True, True, True, False))
    holds(st.builds(case, one_bad_flag(SIGNATURES[command]), keep, st.booleans()), 4)


@pytest.mark.usefixtures("unattended")
def test_a_bad_argument(holds):
    takers = [name for name, found in SIGNATURES.items() if arguments(found) and name in VALID]

    def case(command, text, rest):
        given = (text, *(VALID[command][1:] if rest else ()), *ALWAYS.get(command, ()))
        return Case((command, *given), writes=(*WRITES, text, f"{text}*"))

    holds(st.builds(case, st.sampled_from(takers), words(), st.booleans()), 20)


@pytest.mark.usefixtures("unattended")
def test_any_words(holds):
    safe = [name for name in PROGRAM.commands if name not in {"demo", "bench", "simulate"}]

    def case(name, rest):
        return Case((name, *ALWAYS.get(name, ()), *rest), writes=("*",))

    names = st.sampled_from([*safe, "help", "--version", "trian", ""])
    holds(st.builds(case, names, st.lists(words(), max_size=4)), 20)


VARIABLES = (
    "CLOUDGAN_DATA", "CLOUDGAN_LOG", "CLOUDGAN_TPU", "CLOUDGAN_SUPERVISED", "CLOUDGAN_LIVENESS", "CLOUDGAN_IMAGE",
    "CLOUDGAN_NO_METADATA_SERVER", "CLOUDGAN_GCP_API_KEY", "CI", "TF_CONFIG", "TPU_WORKER_HOSTNAMES", "XDG_DATA_HOME", "HOME", "USER", "LOGNAME", "KUBECONFIG",
    "GEANT4_DATA_DIR", "ONEDNN_MAX_CPU_ISA", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY_ID",
    "AZURE_SUBSCRIPTION_ID", "AZURE_CONFIG_DIR", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "STORAGE_EMULATOR_HOST", "DOCKER_CONFIG", "COLUMNS", "TERM", "NO_COLOR",
    "TZ", "LANG", "LC_ALL", "PATH", "TMPDIR",
)  # fmt: skip
COMMANDS = (
    "plan --config=run.yaml", "plan --config=run.yaml --provider=kubernetes --store=pvc:x", ON_GCP, "plan --config=run.yaml --provider=aws --accelerator=l4",
    "offers", "prices", "cost runs/mine", "train --config=run.yaml --run=runs/new", "simulate out.h5 --showers=1", "status", "status mine", "check",
    "setup --dry-run", "worker", "schema run.yaml", "--help", "setup --dry-run --provider=aws", "convert s3://bucket/showers out.h5",
    "convert gs://bucket/showers out.h5",
)  # fmt: skip
WORKER = '"task": {"type": "worker", "index": 0}}'
JSON = (
    "{}", "[]", "null", "1", '"x"', "{", '{"cluster": {}}', '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 9}}',
    '{"cluster": {"worker": [1]}, ' + WORKER, '{"cluster": {"worker": ["a:99999"]}, "task": {"type": 3, "index": "0"}}',
    '{"cluster": [], "task": []}', "[" * 3000, "9" * 5000,
)  # fmt: skip
CLUSTER = json.loads('{"cluster": {"worker": ["127.0.0.1:9", "127.0.0.1:10"]}, ' + WORKER)


def test_a_strange_variable(holds):
    def case(line, name, text):
        return Case(tuple(line.split()), {}, {name: text}, writes=(*WRITES, f"{text}*"))

    values = st.one_of(words(), st.sampled_from(JSON))
    holds(st.builds(case, st.sampled_from(COMMANDS), st.sampled_from(VARIABLES), values), 60)


def test_a_strange_description_of_a_cluster(holds):
    line = "train --config=run.yaml --run=runs/new --strategy=multiworker"
    values = st.one_of(st.sampled_from(JSON), changed_tree(CLUSTER).map(json.dumps))
    holds(
        values.map(lambda text: Case(tuple(line.split()), {}, {"TF_CONFIG": text}, writes=WRITES)),
        15,
    )


def test_labels_of_a_bill_that_are_no_labels(holds):
    contents = st.sampled_from([1, [1], "[" * 3000, {"a": 1}, None, "x"])
    bills = contents.map(lambda tags: as_json(BILL | {"Tags": tags}))
    holds(cases_of("bill.json", bills), 6)
