"""Secrets of the environment, of login files and of a kubeconfig: no command prints or stores one."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest

from cli.provisioned import few_showers
from cloudgan.cli.main import main
from launch.operations.cloud_double import installed

SECRET = "planted0secret"  # noqa: S105  must not be shown
CLOSED = "127.0.0.1:9"
VARIABLES = {
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
    for name, value in VARIABLES.items():
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
    kubeconfig = {
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "users": [{"name": "lab", "user": login}],
        "current-context": "lab",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
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
