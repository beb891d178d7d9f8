"""The init containers of a pod, with the programs of k8s/, rclone and pip, on the protocols of the stores."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from cloudgan.core.provenance import installed_wheels
from cloudgan.launch.kubernetes.manifests import load_manifest, wheel_files
from cloudgan.schema.plan import Wheel
from cloudgan.storage.folder import FolderStore
from emulators.certificates import write_certificates
from emulators.http import Answer, HttpServer
from storage.rclone import needs_rclone, rclone_path
from tests.storage.conftest import AZURITE, AZURITE_KEY

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # see conftest
    needs_rclone,
]

CONTAINERS = load_manifest("job")["spec"]["template"]["spec"]["initContainers"]


class Ended(NamedTuple):
    """What the init containers of a pod did, up to the first that failed."""

    containers: tuple[str, ...]
    code: int
    output: str


class Pod:
    """A pod whose volumes are folders below `home`."""

    def __init__(self, home):
        self.home, self.site = home, home / "site"
        self.environment = {"PATH": rclone_path(), "HOME": str(home), "TMPDIR": str(home)}
        self.places = {
            "/cloudgan/config": str(home / "config"),
            "/cloudgan/scratch": str(home / "work"),
            "/cloudgan/site": str(self.site),
        }

    def list(self, text):
        """Writes what the ConfigMap holds."""
        (config := self.home / "config").mkdir(exist_ok=True)
        wheel = Wheel(file_name="a-1-py3-none-any.whl", sha256="0" * 64, bytes=1)
        for name, content in (wheel_files((wheel,)) | {"wheels.txt": text}).items():
            (config / name).write_text(content)

    def command(self, container, store, seconds):
        words = list(container["command"])
        if container["name"] == "fetch-wheels":
            words = [*words[:-1], store, str(seconds)]
        for inside, folder in self.places.items():
            words = [word.replace(inside, folder) for word in words]
        return [sys.executable if word == "python" else word for word in words]

    def fetch(self, store, seconds=0):
        """Runs the container with rclone only."""
        return self.start(store, seconds, CONTAINERS[:1])

    def start(self, store, seconds=0, containers=CONTAINERS):
        ran, output = [], ""
        for container in containers:
            done = subprocess.run(
                self.command(container, store, seconds),
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=100,
            )
            ran.append(container["name"])
            output += done.stdout
            if done.returncode:
                break
        return Ended(tuple(ran), done.returncode, output)

    def wheels(self):
        return [path.name for path in (self.home / "work").rglob("*.whl")]


@pytest.fixture
def pod(tmp_path):
    return Pod(tmp_path)


def wheel_of(folder, name, content=b"", tag="py3-none-any"):
    """A wheel of one module; returns file name and bytes."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": b"ANSWER = 42\n#" + content,
        f"{name}-1.0.data/data/lib/lib{name}.so": b"library",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    path = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, bytes_ in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(file, bytes_)
    return path.name, path.read_bytes()


@pytest.fixture
def wheels(tmp_path):
    (folder := tmp_path / "made").mkdir()
    return [wheel_of(folder, "first"), wheel_of(folder, "second", b"x" * 300_000)]


def upload(store, wheels):
    """Puts wheels where pods look for them; returns wheels.txt."""
    lines = []
    for name, content in wheels:
        digest = hashlib.sha256(content).hexdigest()
        store.put(f"wheels/{digest}/{name}", content)
        lines.append(f"{name} {digest} {len(content)}\n")
    return "".join(lines)


def login(pod, kind, address):
    """Sets the variables with which a pod uses a server on loopback."""
    pod.environment |= {
        "folder": {},
        "s3": {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        },
        "gcs": {"RCLONE_GCS_ENDPOINT": f"{address}/storage/v1/", "RCLONE_GCS_ANONYMOUS": "true"},
        "azure": {
            "RCLONE_AZUREBLOB_ENDPOINT": f"{address}/{AZURITE}",
            "AZURE_STORAGE_KEY": AZURITE_KEY,
        },
    }[kind]


def url_in_pod(store):
    """The URL of a store as a plan has it: the emulator's own address of Azure is in a variable."""
    _, emulated, path = store.url.partition(f"/{AZURITE}/")
    return f"https://{AZURITE}.blob.core.windows.net/{path}" if emulated else store.url


@pytest.fixture
def stored(request, store, pod):
    """The URL of `store` for `pod`, which may read it."""
    kind = request.node.callspec.params["store"]
    login(pod, kind, "" if kind == "folder" else request.getfixturevalue(kind).address)
    return url_in_pod(store)


def test_listed_wheels_are_installed_from_every_kind_of_store(store, stored, wheels, pod):
    pod.list(upload(store, wheels))
    ended = pod.start(stored)
    assert ended.code == 0, ended.output
    code = "import first, second; print(first.ANSWER + second.ANSWER)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(pod.site)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "84\n", done.stderr
    assert "2 wheels" in ended.output
    noted = installed_wheels(pod.site)
    assert (noted.wheels, noted.bytes) == (2, sum(len(content) for _, content in wheels))
    assert noted.fetch_seconds > 0
    assert noted.install_seconds > 0
    assert not (pod.home / "work" / "wheels").exists(), "the disk of a pod is small"
    assert (pod.site / "lib" / "libfirst.so").read_bytes() == b"library", "pip leaves it out"


FOLDER_AND_S3 = pytest.mark.parametrize("store", ["folder", "s3"], indirect=True)


@FOLDER_AND_S3
def test_a_wheel_with_another_checksum_is_refused(store, stored, wheels, pod):
    pod.list(upload(store, wheels))
    (name, content), _ = wheels
    expected = hashlib.sha256(content).hexdigest()
    other = content[:-1] + b"!"
    store.put(f"wheels/{expected}/{name}", other)
    ended = pod.start(stored)
    assert (ended.containers[-1], ended.code) == ("install-wheels", 1)
    for text in (name, expected, hashlib.sha256(other).hexdigest(), "deploy again"):
        assert text in ended.output
    assert list(pod.site.iterdir()) == []


@FOLDER_AND_S3
def test_a_wheel_of_another_size_than_listed_is_not_downloaded(store, stored, wheels, pod):
    pod.list(upload(store, wheels))
    (name, content), _ = wheels
    expected = hashlib.sha256(content).hexdigest()
    store.put(f"wheels/{expected}/{name}", content + bytes(3_000_000))
    ended = pod.start(stored)
    assert (ended.containers[-1], ended.code) == ("fetch-wheels", 1)
    found = f"{name}: expected {len(content)} bytes, found {len(content) + 3_000_000}; remove it"
    assert found in ended.output
    assert pod.wheels() == []


def test_a_missing_wheel_is_named_without_retries(store, stored, wheels, pod):
    pod.list(upload(store, wheels[:1]) + f"gone-1.0-py3-none-any.whl {'0' * 64} 10\n")
    ended = pod.fetch(stored, seconds=1000)
    assert ended.code == 1
    assert "gone-1.0-py3-none-any.whl is not in the store; rerun `cloudgan deploy`" in ended.output
    assert pod.wheels() == []


class Proxied(NamedTuple):
    """A store behind a server that fails as the test says."""

    store: object
    url: str
    proxy: object
    role: str


@pytest.fixture
def proxied(cloud, between, pod):
    proxy, here = between
    cloud.make_bucket(bucket := f"bucket-{os.urandom(6).hex()}")
    store = cloud.open(bucket, "runs/demo")
    login(pod, cloud.kind, here)
    role = {
        "s3": "s3:GetObject on its objects",
        "gcs": "roles/storage.objectViewer",
        "azure": "Storage Blob Data Reader",
    }[cloud.kind]
    return Proxied(store, url_in_pod(store), proxy, role)


@pytest.mark.parametrize("status", [403, pytest.param(503, marks=pytest.mark.slow)])
def test_a_store_that_refuses_for_all_the_time_ends_with_75_and_the_role(
    proxied, wheels, pod, status
):
    pod.list(upload(proxied.store, wheels[:1]))
    proxied.proxy.status = status
    ended = pod.fetch(proxied.url)
    assert ended.code == 75
    assert str(status) in ended.output
    assert proxied.role in ended.output
    assert len(ended.output.splitlines()) == 1, "the pod's status shows the last lines"


def test_permissions_that_take_effect_late_do_not_fail_the_pod(proxied, wheels, pod):
    pod.list(upload(proxied.store, wheels))
    proxied.proxy.denied = 2
    ended = pod.fetch(proxied.url, seconds=60)
    assert ended.code == 0, ended.output
    pauses = re.findall(r"403.*; retrying in (\d+) s", ended.output)
    assert pauses in (["1"], ["1", "2"]), "they grow; on Google Cloud rclone itself asks twice"
    assert len(pod.wheels()) == 2


@pytest.mark.slow
def test_a_server_that_fails_for_a_while_does_not_fail_the_pod(proxied, wheels, pod):
    pod.list(upload(proxied.store, wheels))
    proxied.proxy.status = 503
    threading.Timer(3, lambda: setattr(proxied.proxy, "status", 0)).start()
    ended = pod.fetch(proxied.url, seconds=100)
    assert ended.code == 0, ended.output


# fake-gcs-server lists the addresses of objects, which are not behind the proxy.
@pytest.mark.slow
@pytest.mark.parametrize("cloud", ["s3", "azure"], indirect=True)
def test_a_cut_connection_is_retried(proxied, wheels, pod):
    pod.list(upload(proxied.store, wheels))
    proxied.proxy.truncated_bodies = 2
    ended = pod.start(proxied.url, seconds=60)
    assert ended.code == 0, ended.output  # pip verified the hashes
    assert proxied.proxy.truncated_bodies == 0


@pytest.mark.parametrize(
    "line",
    [
        "a-1.0-py3-none-any.whl deadbeef 10",
        f"../a-1.0-py3-none-any.whl {'0' * 64} 10",
        f"..-1.0-py3-none-any.whl {'0' * 64} 10",
        "hello",
    ],
)
def test_an_invalid_list_is_quoted(pod, line):
    pod.list(f"{line}\n")
    ended = pod.fetch("s3://bucket", seconds=1000)
    assert ended.code == 1
    assert f"'{line}' is not of the form NAME.whl SHA256 BYTES" in ended.output


@pytest.mark.parametrize("url", ["ftp://host/folder", "gcs://bucket", "s3://", "https://account"])
def test_an_unknown_store_type_is_refused(pod, url):
    pod.list("")
    ended = pod.fetch(url, seconds=1000)
    assert ended.code == 1
    assert "valid: a folder, gs://, s3:// or https://" in ended.output


def test_wheels_of_another_python_are_named(pod, tmp_path, wheels):
    store = FolderStore(tmp_path / "store")
    made = wheel_of(tmp_path / "made", "third", tag="cp36-cp36m-manylinux_2_28_x86_64")
    pod.list(upload(store, [made]))
    ended = pod.start(store.url)
    assert (ended.containers[-1], ended.code) == ("install-wheels", 1)
    assert f"{made[0]} is not a supported wheel" in ended.output
    assert "the image needs the plan's Python" in ended.output


def test_pip_asks_no_index_and_reads_no_settings(pod, tmp_path, wheels):
    asked = []
    with contextlib.closing(HttpServer(lambda one: asked.append(one) or Answer(500))) as server:
        settings = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "HTTPS_PROXY")
        pod.environment |= dict.fromkeys(settings, server.url)
        store = FolderStore(tmp_path / "store")
        pod.list(upload(store, wheels))
        assert pod.start(store.url).code == 0
    assert asked == []


@pytest.mark.parametrize(
    ("name", "value", "used"),
    [
        ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=planted", "sig=planted"),
        ("AZURE_STORAGE_KEY", "cGxhbnRlZA==", "SharedKey account:"),
    ],
)
def test_secrets_of_the_environment_are_used_and_in_no_message_and_no_argument(
    pod, tmp_path, wheels, *, name, value, used
):
    store = FolderStore(tmp_path / "store")
    pod.list(upload(store, wheels))
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "rclone"
    real = shutil.which("rclone", path=rclone_path())
    wrapper.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/arguments\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    pod.environment["PATH"] = f"{tmp_path / 'bin'}:{pod.environment['PATH']}"
    asked = []
    with contextlib.closing(HttpServer(lambda one: asked.append(one) or Answer(403))) as server:
        pod.environment["RCLONE_AZUREBLOB_ENDPOINT"] = f"{server.url}/account"
        pod.environment[name] = value
        ended = pod.fetch("https://account.blob.core.windows.net/box")
    assert ended.code == 75
    assert "403" in ended.output
    assert used in asked[0].target + str(asked[0].headers)
    said = ended.output + (tmp_path / "arguments").read_text()
    assert "planted" not in said
    assert value not in said


class Identity:
    """The identity services of the clouds and a container of Azure, over HTTP or TLS."""

    def __init__(self):
        self.status, self.failing, self.asked = 404, 0, []
        self.blobs = {}

    def __call__(self, asked):
        path = asked.target.partition("?")[0]
        self.asked.append(asked)
        if path.startswith("/account"):
            return self.blob(asked)
        if self.failing:
            self.failing -= 1
            return Answer(self.status, "not yet")
        ttl = {"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "600"}
        return Answer(200, self.answer(path), ttl)

    def answer(self, path):
        if path.endswith("openid-configuration"):
            here = f"{self.url}/tenant"
            names = ("issuer", "authorization_endpoint", "token_endpoint")
            return dict(zip(names, (f"{here}/v2.0", f"{here}/auth", f"{here}/token"), strict=True))
        if path == "/latest/api/token":
            return "of-the-node"
        if path.endswith("/security-credentials/"):
            return "role"
        if path.endswith("/token"):
            return {"access_token": "of-the-pod", "expires_in": 3599, "token_type": "Bearer"}
        key, end = {"AccessKeyId": "KEY"}, {"Expiration": "2999-01-01T00:00:00Z"}
        if path != "/":
            return key | end | {"Code": "Success", "SecretAccessKey": "s", "Token": "session"}
        login = key | end | {"SecretAccessKey": "s", "SessionToken": "session"}
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in login.items())
        return (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"{fields}</Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>"
        )

    def blob(self, asked):
        if asked.headers.get("Authorization") != "Bearer of-the-pod":
            return Answer(403)
        name = unquote(asked.target.partition("?")[0].partition("/box/")[2])
        if name:
            return Answer(200, self.blobs[name]) if name in self.blobs else Answer(404)
        listed = "".join(
            f"<Blob><Name>{name}</Name><Properties><Content-Length>{len(content)}</Content-Length>"
            "</Properties></Blob>"
            for name, content in self.blobs.items()
        )
        return Answer(200, f"<EnumerationResults><Blobs>{listed}</Blobs></EnumerationResults>")

    def put(self, name, content):
        self.blobs[name] = content


@pytest.fixture
def identity(tmp_path):
    found = Identity()
    found.certificates = write_certificates(tmp_path)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(contextlib.closing(HttpServer(found)))
        tls = HttpServer(found, found.certificates.context())
        stack.callback(tls.close)
        found.plain, found.url = plain.url, f"https://localhost:{tls.port}"
        yield found


def identify(pod, cloud, identity, folder):
    """Sets the variables of a pod with the identity of a cloud; returns the URL of a store."""
    (folder / "token").write_text("of-the-service-account")
    bucket = {"google": "gs://bucket", "azure": "https://account.blob.core.windows.net/box"}
    pod.environment |= {
        "google": {"GCE_METADATA_HOST": identity.plain.removeprefix("http://")},
        "eks": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{identity.plain}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token"),
        },
        "irsa": {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/pods",
            "AWS_ENDPOINT_URL_STS": identity.plain,
            "AWS_REGION": "us-east-1",
        },
        "node": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": identity.plain},
        "azure": {
            "AZURE_FEDERATED_TOKEN_FILE": str(folder / "token"),
            "AZURE_AUTHORITY_HOST": identity.url,
            "AZURE_CLIENT_ID": "client",
            "AZURE_TENANT_ID": "tenant",
            "RCLONE_AZUREBLOB_DISABLE_INSTANCE_DISCOVERY": "true",
            "RCLONE_AZUREBLOB_ENDPOINT": f"{identity.url}/account",
            "SSL_CERT_FILE": str(identity.certificates.authority),
        },
    }[cloud]
    return bucket.get(cloud, "s3://bucket")


SENT = {
    "google": "Metadata-Flavor: Google",
    "eks": "Authorization: of-the-service-account",
    "irsa": "WebIdentityToken=of-the-service-account",
    "node": "X-Aws-Ec2-Metadata-Token: of-the-node",
    "azure": "client_assertion=of-the-service-account",
}
"""With what a pod proves itself to the identity service of a cloud."""


@pytest.mark.parametrize("kind", SENT)
def test_an_identity_that_does_not_come_lets_the_next_pod_try_again(identity, pod, tmp_path, kind):
    identity.status, identity.failing = 404, 1000
    pod.list(f"a-1.0-py3-none-any.whl {'0' * 64} 10\n")
    ended = pod.fetch(identify(pod, kind, identity, tmp_path))
    assert ended.code == 75
    assert "the pod needs" in ended.output
    assert len(ended.output.splitlines()) == 1
    assert identity.asked


@pytest.mark.parametrize("kind", SENT)
def test_an_identity_that_comes_late_reads_the_store(
    request, identity, pod, tmp_path, wheels, *, kind
):
    identity.failing = 2
    if kind == "node":
        identity.status = 503  # after 404 the SDK asks as of old, without a token
    url, store = identify(pod, kind, identity, tmp_path), identity
    if kind != "azure":
        there = request.getfixturevalue("gcs" if kind == "google" else "s3")
        there.make_bucket(bucket := f"bucket-{os.urandom(6).hex()}")
        store = there.open(bucket, "runs/demo")
        url = store.url
        pod.environment |= {
            "AWS_ENDPOINT_URL_S3": there.address,
            "RCLONE_GCS_ENDPOINT": f"{there.address}/storage/v1/",
        }
    pod.list(upload(store, wheels))
    ended = pod.fetch(url, seconds=60)
    assert ended.code == 0, ended.output
    assert identity.failing == 0
    assert len(pod.wheels()) == 2
    sent = "".join(str(one.headers) + one.body.decode() for one in identity.asked)
    assert SENT[kind].lower() in sent.lower()
