"""Files, paths and numbers that no command can use end with one sentence and exit code 2."""

import json
import os
import subprocess
import sys

import pytest

import cloudgan as cg
from cloudgan.cli.main import main
from cloudgan.core.errors import ConfigError
from command_options import flags, options_by_command
from records import kubeconfig

LONG = "a" * 300
SECOND = "n,seconds\n1,10\n"


@pytest.fixture(autouse=True)
def here(user_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: 2026-13-45", "not a valid timestamp at line 1"),
        ("name: [1]", "name is [1]; expected the name of a folder"),
        ("name: ../../x", "expected the name of a folder"),
        (f"name: {LONG}", "expected the name of a folder"),
        ('name: "a\\nb"', "expected the name of a folder"),
        ("training: {seed: !!int x}", "'x' is not a valid int"),
        (f"training: {{seed: {'9' * 5000}}}", "is not a valid int at line 1"),
        (f"training: {{epochs: {10**20}}}", "training.epochs is 1000"),
        ("training: {max_seconds: .inf}", "training.max_seconds is inf"),
        ("training: {max_seconds: 1.0e+300}", "training.max_seconds is 1e+300"),
        ("training: {batch_per_replica: 999999999999}", "training.batch_per_replica is 9999"),
        ("training: {threads: 999999999999}", "training.threads is 9999"),
        ("checkpoint: {every_seconds: 1.0e+300}", "checkpoint.every_seconds is 1e+300"),
        ("model: {preset: mini, latent_size: 999999999999}", "model.latent_size is 9999"),
        ("model: {preset: mini, image_shape: [100000, 51, 25]}", "model.image_shape.0 is 100000"),
        ("model: {preset: mini, adam_betas: [0.5, 2]}", "model.adam_betas.1 is 2"),
        ("model: {preset: mini, loss_weights: {shape: 1.0e+300}}", "loss_weights.shape is 1e+300"),
        ("model: {preset: [1]}", "run.yaml: unknown preset '[1]'"),
        ("1: 2", "Keys should be strings"),
        ("training: {epochs: true}", "training.epochs is True; expected a number"),
        ("training: {max_seconds: false}", "training.max_seconds is False"),
        ("training: {track: comet}", "training.track is 'comet'"),
        ("model: {preset: mini, cell_marginals: 1}", "cell_marginals is 1; expected true or false"),
        ("model: {preset: mini, adam_betas: [false, 0.9]}", "model.adam_betas is False; expected"),
        ("data: x", "data is 'x'; expected keys and values"),
        ("training: [x]", "training is ['x']; expected keys and values"),
        ("data: &a [*a]", "alias"),
        ("training: {epochz: 3}", "unknown key training.epochz. Did you mean 'epochs'?"),
        ("modell: {}", "unknown key modell. Did you mean 'model'?"),
        ("model: {loss_weights: {angel: 1}}", "model.loss_weights.angel. Did you mean"),
        ("model: {imgae_power: 1}", "unknown key model.imgae_power"),
        ("model: {image_power: 1.2}", "model.image_power is 1.2"),
        ("model: {latent_size: 1}", "model.latent_size is 1"),
        ("model: {label_flip_fraction: 0.5}", "model.label_flip_fraction is 0.5"),
        ("model: {preset: mimi}", "unknown preset 'mimi'. Did you mean 'mini'"),
        (
            "model: {preset: paper, image_shape: [1, 51, 25]}",
            "impossible along x; the nearest possible: 3x51x25",
        ),
        (
            "model: {preset: fixed25, image_shape: [1, 1, 25]}",
            "along x and y; the nearest possible: 2x2x25",
        ),
        ("model: {preset: mini, periodic_axes: [x]}", "nearest possible: 16x17x25 or 18x17x25"),
        ("model: {generator_width: 0.1}", "model.generator_width is 0.1"),
        ("model: {discriminator_width: 9}", "model.discriminator_width is 9"),
        ("model: {generator_depth: 1.5}", "model.generator_depth is 1.5"),
        ("training: {epochs: 0}", "training.epochs is 0: Input should be greater than or equal"),
        ("training: {loop: fitt}", "training.loop is 'fitt': Input should be 'custom' or 'fit'"),
        ("training: {strategy: one, workers: 2}", "use strategy multiworker"),
        ("training: {batch_per_replica: 4, global_batch_size: 8}", "alternatives: set one of them"),
        ("training: {validate_every: 61}", "use at most 60"),
        ("training: {until: 'metrik<1'}", "Did you mean 'metric'"),
        (
            "training: {patience: 4}",
            "patience is 4, but no epoch is validated; give --validate-every=1",
        ),
        ("training: {validate_every: 1, smooth: 3}", "smooth is 3 without patience"),
        (
            "training: {validate_every: 10, patience: 4, smooth: 3}",
            "needs 7 validations, and 60 epochs validated every 10 have 6",
        ),
        ("data: {held_out_fraction: 0.2, fold: 5}", "makes 5 folds"),
        ("join: lr", "task is 'train' and join is 'lr'"),
        ("simulation: {energy_gev: [50, 10]}", "give the lower bound first"),
        ("parallel: {ranks: 4}", "ranks is an option of mode downpour or easgd or gem"),
        ("parallel: {mode: gem, elastic_force: 0.5}", "elastic_force is an option of mode easgd"),
        ("parallel: {mode: easgd, synchronous: true}", "synchronous is an option of mode downpour"),
        ("parallel: {mode: easgd, elastic_force: -1}", "parallel.elastic_force is -1"),
        ("parallel: {mode: esgd}", "'downpour'"),
        ("parallel: {mode: gem, momentum: 1}", "parallel.momentum is 1"),
        ("{parallel: {mode: easgd}, training: {loop: fit}}", "use loop custom"),
        ("{parallel: {mode: easgd}, training: {strategy: tpu}}", "strategy is 'tpu'"),
        ("{parallel: {mode: easgd}, training: {workers: 2}}", "workers is 2"),
        ("{parallel: {stages: [conv1]}, training: {replicas: 2}}", "replicas is 2"),
        ("{parallel: {stages: [conv1]}, training: {strategy: mirrored}}", "strategy is 'mirrored'"),
        ("parallel: {stages: [conv1], mode: gem, group: 2}", "group is 2"),
    ],
)
def test_a_run_yaml_is_refused_with_file_and_place(refused, tmp_path, text, said):
    (tmp_path / "run.yaml").write_text(text)
    answer = refused("train", "--config=run.yaml", "--data=x.h5", "--max-steps=5", "--describe")
    assert answer.startswith("cloudgan: run.yaml: ")
    assert said in answer


@pytest.mark.parametrize("flag", ["--config", "--run", "--data"])
@pytest.mark.parametrize("kind", ["pipe", "device", "long"])
def test_a_path_that_is_no_file_or_folder_is_refused_at_once(refused, tmp_path, flag, kind):
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": "pipe", "device": "/dev/zero", "long": LONG}[kind]
    data = () if flag == "--data" else ("--data=missing.h5",)
    refused("train", f"{flag}={path}", *data)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_as_the_file_of_a_login_is_not_waited_for(
    cloudgan_here, tmp_path, monkeypatch, kind
):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / kind))
    said = cloudgan_here("check", "--provider=gcp", "--json", exits=2).stdout
    assert f"{tmp_path / kind}: is a {kind}; give a regular file" in said


def test_a_file_name_that_is_not_utf8_is_refused_before_anything_is_converted(refused, tmp_path):
    name = tmp_path / "showers" / os.fsdecode(b"\xff.h5")
    name.parent.mkdir()
    name.write_bytes(b"showers")
    for words in (("convert", "showers", "--verify"), ("convert", "showers/*.h5", "--verify")):
        assert "bytes that are not UTF-8" in refused(*words)
    assert "--data has bytes that are not UTF-8" in refused("train", f"--data={name}")
    assert "has a NUL character" in refused("train", "--data=a\0b")
    with pytest.raises(ConfigError, match="NUL"):
        cg.train(data="a\0b")


def test_an_empty_until_removes_the_criterion_of_the_run(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text("training: {until: 'metric<0.2'}")
    flags = ("--config=run.yaml", "--provider=local", "--nodes=1", "--json")
    untils = []
    for more in ((), ("--until=",)):
        plan = cloudgan_here("plan", *flags, *more).json()
        untils.append(plan["config"]["training"]["until"])
    assert untils == ["metric<0.2", ""]


def text_flags():
    """Each flag of each command that takes text, a choice or a number."""
    for name, options in options_by_command().items():
        yield from ((name, one) for one in flags(options) if one.kinds != (bool,))


def test_an_empty_value_of_each_flag_of_each_command_is_refused(capsys):
    """An unset variable of the shell, as in `--region=$REGION`, is not the same as no flag."""
    found = list(text_flags())
    assert {"image", "plan", "deploy", "offers", "setup", "check", "prices", "doctor"} <= {
        command for command, _ in found
    }
    for _, parameter in found:
        for value in ("", " "):
            if (parameter.name, value) == ("until", ""):
                continue  # it removes the criterion of the run
            with pytest.raises(ConfigError, match=f"^{parameter.shown}={value} is empty; give "):
                parameter.read(value)
    with pytest.raises(SystemExit) as end:
        main(["setup", "--provider=gcp", "--region=", "--dry-run"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said == "cloudgan: --region= is empty; give --region=TEXT, or omit the flag\n"


def test_data_of_this_machine_are_not_kept_at_a_url(refused, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", "gs://a")
    said = refused("prices", "--accelerator=v100")
    assert "CLOUDGAN_DATA=gs://a is a URL; valid: a path of this machine" in said
    assert said.endswith("set it to a folder, or unset it")


@pytest.mark.parametrize("run", [".", "..", "./full", "full/new/.."])
def test_a_folder_with_other_files_is_not_the_folder_of_a_run(refused, tmp_path, monkeypatch, run):
    (tmp_path / "here/full/new").mkdir(parents=True)
    for name in ("thesis.tex", "here/thesis.tex", "here/full/thesis.tex"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    said = refused("demo", f"--run={run}", "--showers=50")
    assert "is not the folder of a run: it has " in said
    assert "; nothing was written. Give a new folder, such as --run=runs/mine" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{SECOND}2,6\n4,{'9' * 5000}", ":4: seconds is '999"),
        (f"{SECOND}2,1e308\n4,1e308", ":3: seconds is '1e308'"),
        (f"{SECOND}2,5e-324\n4,3", ":3: seconds is '5e-324'"),
        (f"{SECOND}{'9' * 5000},3", ":3: n is '999"),
        (f"{SECOND}2,10\0\n", ":3: seconds is"),
        (f'{SECOND}2,"', ":3: not CSV"),
    ],
)
def test_timings_are_refused_with_file_and_line(refused, tmp_path, text, said):
    (tmp_path / "runs.csv").write_text(text)
    assert f"runs.csv{said}" in refused("cost", "--fit=runs.csv", "--predict=8")


@pytest.mark.parametrize("size", ["1" * 400, "1" * 5000, "\N{SUPERSCRIPT TWO}", "0", "-1", ""])
def test_a_size_that_no_run_has_is_not_predicted(refused, tmp_path, size):
    (tmp_path / "runs.csv").write_text(f"{SECOND}2,6\n4,4\n")
    assert "--predict" in refused("cost", "--fit=runs.csv", f"--predict={size}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": ["lab"]}, "current-context: Input should be a valid string"),
        ({"current-context": 5}, "current-context"),
        ({"contexts": [{"name": ["lab"], "context": {}}]}, "contexts: must be a list"),
        ({"contexts": [{"name": "lab", "context": {"cluster": ["lab"]}}]}, "lab.cluster"),
        ({"contexts": [{"name": "lab", "context": {"user": {}}}]}, "contexts.lab.user"),
        ({"contexts": [{"name": "lab", "context": "x"}]}, "contexts.lab: Input should be"),
        ({"clusters": [{"name": "lab", "cluster": {"server": 5}}]}, "clusters.lab.server"),
        ({"clusters": [{"name": "lab", "cluster": [1]}]}, "clusters.lab: Input should be"),
        ({"users": [{"name": "lab", "user": {"token": 5}}]}, "users.lab.token"),
        ({"users": [{"name": "lab", "user": {"exec": "x"}}]}, "users.lab.exec"),
        ({"users": [{"name": "lab", "user": {"exec": {"command": 5}}}]}, "exec.command"),
        ({"users": [{"name": "lab", "user": {"exec": {"command": ""}}}]}, "exec.command"),
        (
            {"users": [{"name": "lab", "user": {"exec": {"command": "x", "installHint": [1]}}}]},
            "exec.installHint",
        ),
        ({"users": {"lab": {}}}, "users: must be a list"),
        ({"contexts": 1}, "contexts: must be a list"),
        ({"clusters": [1]}, "clusters"),
        ({"contexts": [{"name": 1, "context": {"cluster": 2, "user": [3]}}]}, "contexts"),
        ({"contexts": [{"name": "lab", "context": {"namespace": ["x"]}}]}, "lab.namespace"),
    ],
)
def test_a_field_of_a_kubeconfig_has_its_type(refused, tmp_path, monkeypatch, change, said):
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig() | change))
    monkeypatch.setenv("KUBECONFIG", "kubeconfig")
    answer = refused(
        "plan", "--provider=kubernetes", "--store=gs://bucket/x", "--data=gs://bucket/d"
    )
    assert "kubeconfig kubeconfig: " in answer
    assert said in answer
    assert "planted" not in answer


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("good = 0.05", "good = inf", "gate.0.good is inf"),
        ("good = 0.05", "good = 1e300", "gate.0.good is 1e+300"),
        ("{value}", "{value:999999999f}", "not a format of a few digits"),
        ("{value}", "{value:>{percent}}", "not a format of a few digits"),
        ("{value}", "{value.__class__}", "'value.__class__' is not a name"),
        ("schema_version = 2", "schema_version = 2026-13-45", "not TOML"),
        ("schema_version = 2", f"schema_version = {'9' * 5000}", "not TOML"),
        ("schema_version = 2", f"schema_version = {'[' * 3000}", "nested"),
    ],
)
def test_gates_are_refused_with_file_and_key(refused, tmp_path, old, new, said):
    text = (
        'schema_version = 2\n[[gate]]\nmeasure = "response"\ntitle = "t"\ngood = 0.05\n'
        'acceptable = 0.1\nmessage = "{value}"\n'
    )
    assert old in text
    (tmp_path / "gates.toml").write_text(text.replace(old, new))
    answer = refused("validate", "--generated=a", "--reference=b", "--gate=gates.toml")
    assert "gates.toml: " in answer
    assert said in answer


FOCUS = "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodEnd,Tags\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1e308,USD,Usage,2026-01-01,", "billedcost is '1e308'"),
        ("1,USD,Usage,0001-01-01T00:00:00+14:00,", "is not a time of a bill"),
        ("1,USD,Usage,9999-12-31,", "is not a time of a bill"),
        (f"1,USD,Usage,2026-01-01,{'[' * 100_000}", "tags: not JSON: nested"),
        (f"1,USD,Usage,2026-01-01,[{'9' * 5000}]", "tags: not JSON"),
    ],
)
def test_a_line_of_a_bill_is_refused_with_its_number(tmp_path, line, said):
    from cloudgan.core.errors import DataError
    from cloudgan.money.bill import read_bill

    (tmp_path / "bill.csv").write_text(f"{FOCUS}{line}\n")
    with pytest.raises(DataError, match=r"bill\.csv:2: not a line of FOCUS: ") as refusal:
        read_bill([tmp_path / "bill.csv"], "mine")
    assert said in str(refusal.value)


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "planted", "AWS_SECRET_ACCESS_KEY": "planted"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AWS_ENDPOINT_URL", "nope"),
        ("AWS_ENDPOINT_URL", "http://[::1"),
        ("AWS_ENDPOINT_URL", "http://a b"),
        ("AWS_DEFAULT_REGION", "a b"),
        ("AWS_DEFAULT_REGION", "x" * 300),
        ("AWS_CONFIG_FILE", b"[default\nx"),
        ("AWS_CONFIG_FILE", b"\xff\xfe\0"),
        ("AWS_SHARED_CREDENTIALS_FILE", b"garbage"),
        ("AWS_METADATA_SERVICE_TIMEOUT", "x"),
        ("AWS_STS_REGIONAL_ENDPOINTS", "x"),
    ],
)
def test_invalid_settings_of_aws_are_named(refused, tmp_path, monkeypatch, variable, value):
    for name, text in CREDENTIALS.items():
        monkeypatch.setenv(name, text)
    if isinstance(value, bytes):
        (tmp_path / "file").write_bytes(value)
        value = str(tmp_path / "file")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv(variable, value)
    answer = refused("convert", "s3://bucket/showers", "out.h5")
    assert "the AWS settings are invalid" in answer
    assert "planted" not in answer


def test_a_character_that_the_terminal_lacks_is_replaced(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cloudgan", "cost", f"--fit={tmp_path}/\N{GREEK SMALL LETTER MU}"],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    assert done.stderr.isascii()
