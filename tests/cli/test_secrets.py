"""A login, key, token or signature in any input is refused, and appears in no file and no output."""

import base64
import json
import subprocess
import sys
from contextlib import suppress

import pytest

import cloudgan as cg
from cli.provisioned import few_showers
from cloudgan.cli.main import main
from cloudgan.core.errors import ConfigError
from cloudgan.storage.store import open_store
from command_options import options_by_command
from launch.lifecycle.cloud_double import installed
from records import kubeconfig

PLANTED = "pl4nted0secret"
LONG = f"{PLANTED}{'0' * 30}"
SECRETS = {
    "login of a URL": f"https://marie:{PLANTED}@data.lab/showers.h5",
    "token as login": f"https://{PLANTED}@data.lab/showers.h5",
    "password with slash and at": f"https://marie:a/{PLANTED}@{PLANTED}@data.lab/x",
    "key pair in a bucket URL": f"s3://AKIAIOSFODNN7EXAMPLE:{PLANTED}/x@bucket/x",
    "login without a scheme": f"marie:{PLANTED}@registry.lab/gan:1",
    "Azure SAS": f"https://lab.blob.core.windows.net/x?sv=2024-11-04&sp=r&sig={PLANTED}%3D",
    "presigned S3": f"https://b.s3.amazonaws.com/x?X-Amz-Expires=9&X-Amz-Signature={PLANTED}",
    "S3 session": f"https://b.s3.amazonaws.com/x?X-Amz-Security-Token={PLANTED}",
    "signed GCS": f"https://storage.googleapis.com/b/x?X-Goog-Signature={PLANTED}",
    "token in a query": f"https://data.lab/x?token={PLANTED}",
    "access token in a query": f"gs://lab/x?a=b&access_token={PLANTED}",
    "key in a query": f"https://data.lab/x?key={PLANTED}",
    "connection string": f"DefaultEndpointsProtocol=https;AccountName=lab;AccountKey={PLANTED}==",
    "assignment": f"AWS_SECRET_ACCESS_KEY={PLANTED}",
    "AWS access key": "AKIAPL4NTED0SECRET00",
    "GitHub": f"ghp_{LONG}",
    "GitHub, fine-grained": f"github_pat_{LONG}",
    "Hugging Face": f"hf_{LONG}",
    "GitLab": f"glpat-{LONG}",
    "Google": f"AIza{LONG[:35]}",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJ{LONG}.{PLANTED}",
    "header": f"Authorization: Bearer {PLANTED}",
    "private key": f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----",
}
by_secret = pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)


def command_lines(secret):
    """Every parameter of every command with the secret as its value."""
    for command, options in options_by_command().items():
        words = command.split()
        for option in options:
            yield [*words, f"--{option.name}={secret}"]
            yield [*words, f"--{option.name}", secret]
        yield [*words, secret]
        yield [*words, "mine", "--", "curl", secret]


@pytest.fixture
def traces(user_folder, tmp_path, capsys):
    """Returns where a secret is found: in what was printed since the last call, and in files."""
    few_showers(user_folder / "showers")
    given = tmp_path / "given"  # what the user wrote
    given.mkdir()

    def find():
        said = "".join(capsys.readouterr())
        files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        found = [
            str(path)
            for path, content in files.items()
            if given not in path.parents and leaks(content.decode(errors="replace"))
        ]
        assert "a bug in cloudgan" not in said
        return found + [said] * leaks(said)

    return find


def leaks(text):
    return PLANTED.lower() in text.lower()


def ends(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0


@by_secret
def test_every_flag_of_every_command_refuses_a_secret(traces, user_folder, secret):
    before = sorted(user_folder.rglob("*"))
    lines = list(command_lines(secret))
    assert len(lines) > 1000
    assert [line for line in lines if ends(*line) != 2] == []
    assert traces() == []
    assert sorted(user_folder.rglob("*")) == before


FILES = {
    "run.yaml, data": ("run.yaml", "data: {{path: {0}}}"),
    "run.yaml, checkpoints": ("run.yaml", "checkpoint: {{url: {0}}}"),
    "run.yaml, name": ("run.yaml", "name: {0}"),
    "run.yaml, another value": ("run.yaml", "training: {{until: {0}}}"),
    "run.yaml, a number": ("run.yaml", "training: {{epochs: {0}}}"),
    "run.yaml, unknown key": ("run.yaml", "training: {{{0}: 1}}"),
    "run.yaml, comment": ("run.yaml", "seed: 1  # {0}"),
    "space": ("space.yaml", "space: {{training.seed: {{choices: [1, {0}]}}}}"),
    "prices": ("prices.yaml", "nodes: {{mine: {{usd_per_hour: 1, accelerator: {0}}}}}"),
    "prologue": ("prologue.sh", "module load cuda\ncurl {0}"),
    "gates": ("gates.toml", "message = {0}"),
    "timings": ("timings.csv", "nodes,seconds\n1,{0}"),
}
READERS = {
    "run.yaml": (
        ("train", "--config=FILE", "--data=showers"),
        ("plan", "--config=FILE", "--data=showers", "--json"),
        ("deploy", "--config=FILE", "--data=showers", "--yes"),
        ("search", "../space.yaml", "--config=FILE", "--data=showers"),
    ),
    "space.yaml": (("search", "FILE", "--data=showers", "--preset=smoke"),),
    "prices.yaml": (
        ("plan", "--price-file=FILE", "--provider=local", "--data=showers"),
        ("offers", "--price-file=FILE"),
        ("cost", "runs/mine", "--price-file=FILE"),
    ),
    "prologue.sh": (
        ("plan", "--provider=slurm", "--prologue=FILE", "--data=showers"),
        ("deploy", "--provider=slurm", "--prologue=FILE", "--data=showers", "--yes"),
    ),
    "gates.toml": (("validate", "a.h5", "--against=b.h5", "--gate=FILE"),),
    "timings.csv": (("cost", "--fit=FILE"),),
}


@by_secret
def test_every_command_refuses_a_secret_in_a_file(traces, user_folder, tmp_path, secret):
    (user_folder.parent / "space.yaml").write_text("space: {training.seed: {choices: [1, 2]}}")
    before = sorted(user_folder.rglob("*"))
    for name, content in FILES.values():
        path = tmp_path / "given" / name
        path.write_text(content.format(json.dumps(secret)))
        for command in READERS[name]:
            words = [word.replace("FILE", str(path)) for word in command]
            assert ends(*words) == 2, (content, words)
    assert traces() == []
    assert sorted(user_folder.rglob("*")) == before


VARIABLES = {
    "AWS_ENDPOINT_URL": ("train", "--data=s3://lab/x", "--preset=smoke"),
    "STORAGE_EMULATOR_HOST": ("train", "--data=gs://lab/x", "--preset=smoke"),
    "CLOUDGAN_AZURE_PRICES_URL": ("prices", "refresh", "--provider=azure"),
    "CLOUDGAN_AWS_PRICES_URL": ("prices", "refresh", "--provider=aws"),
    "CLOUDGAN_DATA": ("prices",),
    "TF_CONFIG": ("train", "--data=showers", "--preset=smoke"),
    "GEANT4_DATA_DIR": ("simulate", "x.h5", "--engine=geant4", "--showers=1"),
}


@by_secret
def test_a_secret_in_a_variable_is_in_no_file_and_no_output(traces, monkeypatch, secret):
    for variable, command in VARIABLES.items():
        with monkeypatch.context() as patch:
            patch.setenv(variable, secret)
            ends(*command)
    assert traces() == []


@by_secret
def test_the_python_api_refuses_a_secret(traces, secret):
    calls = (
        lambda: cg.train(data=secret, preset="smoke"),
        lambda: cg.train(data="showers", preset="smoke", checkpoints=secret),
        lambda: cg.plan(data=secret, provider="local"),
        lambda: cg.plan(data="showers", provider="kubernetes", store=secret),
        lambda: cg.plan(data="showers", provider="kubernetes", image=secret),
        lambda: open_store(secret),
    )
    for call in calls:
        with pytest.raises(ConfigError) as refused:
            call()
        assert not leaks(repr(refused.value))
    assert traces() == []


FAILING = """
import json, logging, sys, warnings
from pathlib import Path
from cloudgan.money import prices
from cloudgan.cli.main import main
from cloudgan.core.command import command
from cloudgan.core.flags import Options

SAID = json.loads(Path("said").read_text())

@command
def failing(options: Options) -> None:
    for one in SAID:
        print(one)
        logging.getLogger("urllib3").warning(one)
        warnings.warn(one)
    raise RuntimeError("\\n".join(SAID))

prices.prices = failing
sys.argv = ["cloudgan", "prices", *sys.argv[1:]]
main()
"""


def test_what_a_library_says_is_masked_on_every_way_out(tmp_path, monkeypatch):
    """A library repeats its address in a result, a log, a warning and an exception with a traceback."""
    (tmp_path / "said").write_text(json.dumps(list(SECRETS.values())))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FAILING, "--traceback"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.count("***") >= len(SECRETS)
    assert done.stderr.count("***") >= 4 * len(SECRETS)
    (path,) = tmp_path.glob("*.traceback.txt")
    assert not leaks(done.stdout + done.stderr + path.read_text())


# Secrets of the environment, of login files and of a kubeconfig

SECRET = "planted0secret"  # noqa: S105  must not be shown
CLOSED = "127.0.0.1:9"
LOGINS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": SECRET,
    "AWS_ENDPOINT_URL": f"http://marie:{SECRET}@{CLOSED}",
    "AZURE_STORAGE_KEY": base64.b64encode(SECRET.encode()).decode(),
    "AZURE_STORAGE_SAS_TOKEN": f"sv=1&sig={SECRET}",
    "AZURE_CLIENT_SECRET": SECRET,
    "GOOGLE_OAUTH_ACCESS_TOKEN": SECRET,
    "STORAGE_EMULATOR_HOST": f"http://marie:{SECRET}@{CLOSED}",
    "HTTPS_PROXY": f"http://marie:{SECRET}@{CLOSED}",
    "CLOUDGAN_GCP_PRICES_URL": f"http://marie:{SECRET}@{CLOSED}",
    "CLOUDGAN_AWS_PRICES_URL": f"http://marie:{SECRET}@{CLOSED}",
    "CLOUDGAN_AZURE_PRICES_URL": f"http://marie:{SECRET}@{CLOSED}?code={SECRET}",
    "no_proxy": "127.0.0.1",
}
RUN = ("--name=mine", "--preset=smoke", "--data=showers", "--image=lab/gan:1", "--epochs=1")
ON_CLUSTER = ("--provider=kubernetes", "--store=s3://lab/cloudgan", *RUN[:2], RUN[3])
IN_CLOUD = ("--provider=gcp", "--accelerator=t4:1", "--nodes=1", *RUN[:4])
COMMANDS = (
    ("plan", "--provider=local", *RUN[:3], "--output=planned"),
    ("plan", *ON_CLUSTER, "--data=s3://lab/cloudgan/data", "--output=planned2"),
    ("plan", *IN_CLOUD, "--allow-stale-price", "--json"),
    ("deploy", *ON_CLUSTER, "--data=s3://lab/cloudgan/data", "--yes"),
    (
        "deploy",
        "--provider=kubernetes",
        "--store=pvc:runs",
        *RUN[:2],
        "--data=pvc:x",
        RUN[3],
        "--yes",
    ),
    ("deploy", *IN_CLOUD, "--yes", "--allow-stale-price"),
    *(
        (verb, "mine", "--provider=kubernetes")
        for verb in ("status", "logs", "cancel", "adopt", "down")
    ),
    *((verb, "mine", "--provider=gcp") for verb in ("status", "logs", "cancel", "adopt", "down")),
    *((verb, "mine") for verb in ("status", "logs", "cancel", "adopt", "down")),
    ("status",),
    ("check", "--provider=kubernetes"),
    ("check", "--provider=gcp"),
    ("doctor", "--provider=gcp"),
    ("setup", "--provider=gcp", "--dry-run"),
    ("convert", "--data=s3://lab/cloudgan/data", "--output=made"),
    ("train", "--data=s3://lab/cloudgan/data", "--preset=smoke", "--run=runs/trained"),
    ("convert", "--data=gs://lab/data", "--output=made"),
    ("train", "--data=gs://lab/data", "--preset=smoke", "--run=runs/trained"),
    ("offers", "--accelerator=t4:1"),
    ("prices", "refresh", "--provider=gcp"),
    ("prices", "refresh", "--provider=azure"),
    ("cost", "runs/mine"),
    ("compare", "runs/mine"),
    ("image", "--provider=gcp", "--dry-run"),
    ("schema",),
)


@pytest.fixture
def planted(user_folder, tmp_path, monkeypatch):
    """A user whose environment and login files are full of secrets, and clouds that do not answer."""
    installed(monkeypatch, tmp_path)
    few_showers(user_folder / "showers")
    for name, value in LOGINS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("cloudgan.launch.kubernetes.api._FIRST_CONTACT_SECONDS", 0.0)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return user_folder


def forms(secret):
    """A secret as it is, and as parts of logins encode it."""
    pair = base64.b64encode(f"marie:{secret}".encode()).decode()
    return secret, base64.b64encode(secret.encode()).decode(), pair


@pytest.mark.parametrize(
    ("server", "commands"),
    [
        (f"https://{CLOSED}", COMMANDS),
        (f"https://marie:{SECRET}@{CLOSED}", [one for one in COMMANDS if ON_CLUSTER[0] in one]),
    ],
    ids=["server", "server with a login"],
)
def test_no_command_prints_or_stores_a_planted_secret(planted, tmp_path, capsys, server, commands):
    login = {"token": SECRET, "username": "marie", "password": SECRET}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(server, **login)))
    found = {}
    for command in commands:
        with suppress(SystemExit):
            main(list(command))
        said = "".join(capsys.readouterr())
        found |= {" ".join(command): said for form in forms(SECRET) if form in said}
        assert "a bug in cloudgan" not in said, (command, said)
    for folder in (planted, tmp_path / "buckets"):
        for path in filter(lambda each: each.is_file(), folder.rglob("*")):
            content = path.read_bytes()
            found |= {str(path): "" for form in forms(SECRET) if form.encode() in content}
    assert not found
