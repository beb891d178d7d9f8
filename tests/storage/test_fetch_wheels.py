"""k8s/fetch_wheels.py with the protocols of the stores."""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import urllib.error
import zipfile
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from cloudgan.schema.provenance import installed_wheels
from cloudgan.storage.folder import FolderStore
from emulators.http import Answer, HttpServer
from tests.storage.conftest import AZURITE_KEY

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # see conftest

SCRIPT = Path(__file__).parents[2] / "k8s" / "fetch_wheels.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("fetch_wheels", SCRIPT)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def wheel_of(name, content=b"", version="1.0", tag="py3-none-any"):
    """A wheel of one module; returns file name and bytes."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": b"ANSWER = 42\n#" + content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    path = Path(os.environ["PYTEST_WHEELS"], f"{name}-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w") as archive:
        for file, bytes_ in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(file, bytes_)
    return path.name, path.read_bytes()


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    (folder := tmp_path / "made").mkdir()
    monkeypatch.setenv("PYTEST_WHEELS", str(folder))
    return [wheel_of("first"), wheel_of("second", b"x" * 300_000)]


def upload(store, wheels):
    """Puts wheels where pods look for them; returns wheels.txt."""
    lines = []
    for name, content in wheels:
        digest = hashlib.sha256(content).hexdigest()
        store.put(f"wheels/{digest}/{name}", content)
        lines.append(f"{name} {digest} {len(content)}\n")
    return "".join(lines)


@pytest.fixture
def environment(request, store, monkeypatch):
    """The variables of a pod that may read `store`."""
    kind = request.node.callspec.params["store"]
    monkeypatch.setenv("CLOUDGAN_STORE", store.url)
    if kind == "s3":
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3").address)
    elif kind == "gcs":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", request.getfixturevalue("gcs").address)
    elif kind == "azure":
        monkeypatch.setenv("AZURE_STORAGE_KEY", AZURITE_KEY)


def fetched(program, tmp_path, listed, **options):
    (tmp_path / "wheels.txt").write_text(listed)
    options = {"backoff_seconds": 0.001} | options
    places = {"wheels": "wheels.txt", "site": "site", "folder": "work/wheels"}
    arguments = [f"--{name}={tmp_path / place}" for name, place in places.items()]
    arguments += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return program.main(arguments)


def test_shared_libraries_among_the_data_files_of_a_wheel_are_installed(program, tmp_path):
    names = ("m.data/data/lib/libm.so.1", "m.data/data/lib/m/libn.so", "m.data/data/lib/../../x")
    with zipfile.ZipFile(tmp_path / "m.whl", "w") as archive:
        for name in ("m/a.py", "m.data/data/lib/", *names):
            archive.writestr(name, name)
    program.install_libraries(tmp_path / "m.whl", tmp_path / "site")
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    lib = tmp_path / "site" / "lib"
    assert found == {tmp_path / "m.whl", lib / "libm.so.1", lib / "m" / "libn.so"}


@pytest.mark.usefixtures("environment")
def test_listed_wheels_are_installed_from_every_kind_of_store(
    program, store, wheels, tmp_path, capfd
):
    assert fetched(program, tmp_path, upload(store, wheels)) == 0, capfd.readouterr().err
    code = "import first, second; print(first.ANSWER + second.ANSWER)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "84\n", done.stderr
    assert "2 wheels" in capfd.readouterr().out
    noted = installed_wheels(tmp_path / "site")
    assert (noted.wheels, noted.bytes) == (2, sum(len(content) for _, content in wheels))
    assert noted.fetch_seconds > 0
    assert noted.install_seconds > 0
    assert not (tmp_path / "work" / "wheels").exists(), "the disk of a pod is small"


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("store", ["folder", "s3"], indirect=True)
def test_a_wheel_with_another_checksum_is_refused(program, store, wheels, tmp_path, capfd):
    listed = upload(store, wheels)
    (name, content), _ = wheels
    expected = hashlib.sha256(content).hexdigest()
    store.put(f"wheels/{expected}/{name}", b"something else")
    assert fetched(program, tmp_path, listed) == 1
    output = capfd.readouterr().err
    assert name in output
    assert f"expected SHA-256 {expected}" in output
    assert f"found {hashlib.sha256(b'something else').hexdigest()} and 14 bytes" in output
    assert not (tmp_path / "site").exists()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("store", ["folder", "s3"], indirect=True)
def test_a_wheel_that_is_larger_than_listed_is_not_downloaded_to_its_end(
    program, store, wheels, tmp_path, capfd
):
    listed = upload(store, wheels[:1])
    (name, content), _ = wheels
    expected = hashlib.sha256(content).hexdigest()
    store.put(f"wheels/{expected}/{name}", content + bytes(3_000_000))
    read = []
    opened = program.Folder.open if store.url.startswith("/") else program.Bucket.open

    def counted(self, key):
        return Counting(opened(self, key), read)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Folder, "open", counted)
        patch.setattr(program.Bucket, "open", counted)
        assert fetched(program, tmp_path, listed) == 1
    assert f"expected {len(content)} bytes, found more" in capfd.readouterr().err
    assert sum(map(len, read)) < 600_000
    assert list((tmp_path / "work" / "wheels").iterdir()) == []


class Counting:
    """A response that records the blocks that are read."""

    def __init__(self, source, blocks):
        self.source, self.blocks = source, blocks
        self.headers = getattr(source, "headers", {})

    def read(self, size):
        self.blocks.append(block := self.source.read(size))
        return block

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.source.close()


@pytest.mark.usefixtures("environment")
def test_a_missing_wheel_is_named_without_retries(program, store, wheels, tmp_path, capfd):
    listed = upload(store, wheels[:1]) + f"gone-1.0-py3-none-any.whl {'0' * 64} 10\n"
    assert fetched(program, tmp_path, listed, backoff_seconds=1000) == 1
    assert "gone-1.0-py3-none-any.whl is not in the store; rerun `cloudgan deploy`" in (
        capfd.readouterr().err
    )


@pytest.fixture
def proxied(cloud, between, monkeypatch):
    """A store behind a server that fails as the test says; and what makes it fail."""
    proxy, here = between
    cloud.make_bucket(bucket := f"bucket-{os.urandom(6).hex()}")
    store = cloud.open(bucket, "runs/demo")
    url = store.url.replace(cloud.address, here)
    monkeypatch.setenv("CLOUDGAN_STORE", url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", here)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", here)
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURITE_KEY)
    return store, proxy


def test_a_failing_server_ends_with_75_after_retries(program, proxied, wheels, tmp_path, capfd):
    store, proxy = proxied
    listed = upload(store, wheels[:1])
    proxy.status = 503
    assert fetched(program, tmp_path, listed) == 75
    assert "HTTP 503" in (output := capfd.readouterr()).err
    assert "6 times" in output.err
    assert len(proxy.seen) == 6
    assert output.out.count("retrying") == 5


def test_denied_access_ends_with_75_and_the_missing_role(program, proxied, wheels, tmp_path, capfd):
    store, proxy = proxied
    listed = upload(store, wheels[:1])
    proxy.status = 403
    assert fetched(program, tmp_path, listed, denied_seconds=0.05) == 75
    assert store.url.split(":")[0] in ("s3", "gs", "http")
    role = {"s3": "s3:GetObject", "gs": "roles/storage", "ht": "Blob Data Reader"}[store.url[:2]]
    assert role in capfd.readouterr().err


def test_denied_logins_are_retried_for_five_minutes_with_growing_pauses(
    program, monkeypatch, tmp_path
):
    clock = [1000.0]
    monkeypatch.setattr(program.time, "monotonic", lambda: clock[0])
    fetcher = program.Fetcher(
        program.Google("gs://bucket/x"), tmp_path, 1.0, program.DENIED_SECONDS
    )
    failures, pauses = program.Failures(), []
    denied = urllib.error.HTTPError("http://x", 401, "Unauthorized", {}, io.BytesIO())
    while clock[0] < 1300:
        pauses.append(fetcher.pause("wheels/a", denied, failures))
        clock[0] += pauses[-1]
    with pytest.raises(program.TryAgainError, match="no access for 300 s"):
        fetcher.pause("wheels/a", denied, failures)
    assert sum(pauses) == pytest.approx(300)
    assert len(pauses) < 20, "the pauses grow"
    assert max(pauses) <= 60


@pytest.mark.slow
def test_a_cut_connection_is_retried(program, proxied, wheels, tmp_path, capfd):
    store, proxy = proxied
    listed = upload(store, wheels)
    proxy.truncated_bodies = 2
    assert fetched(program, tmp_path, listed) == 0, capfd.readouterr().err
    assert capfd.readouterr().out.count("the connection was cut; retrying") == 2


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("a-1.0-py3-none-any.whl deadbeef 10\n", "invalid SHA-256 'deadbeef'"),
        ("../a-1.0-py3-none-any.whl " + "0" * 64 + " 10\n", "not a wheel's name"),
        ("..-1.0-py3-none-any.whl " + "0" * 64 + " 10\n", "not a wheel's name"),
        ("hello\n", "not of the form NAME.whl SHA256 BYTES"),
    ],
)
def test_an_invalid_list_is_quoted(program, listed, message, tmp_path, capfd):
    assert fetched(program, tmp_path, listed) == 1
    assert message in capfd.readouterr().err


def test_wheels_of_another_python_are_named_before_pip_runs(program, tmp_path, monkeypatch, capfd):
    (store := tmp_path / "store").mkdir()
    name = "a-1.0-cp36-cp36m-manylinux_2_28_x86_64.whl"
    digest = hashlib.sha256(b"x").hexdigest()
    (store / "wheels" / digest).mkdir(parents=True)
    (store / "wheels" / digest / name).write_bytes(b"x")
    monkeypatch.setenv("CLOUDGAN_STORE", str(store))
    assert fetched(program, tmp_path, f"{name} {digest} 1\n") == 1
    assert f"{name} is for another Python than this image's" in capfd.readouterr().err


@pytest.mark.parametrize("url", ["", "ftp://host/folder", "gcs://bucket"])
def test_an_unknown_store_type_is_refused(program, url, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("CLOUDGAN_STORE", url)
    assert fetched(program, tmp_path, "") == 1
    assert "valid: a folder, gs://, s3:// or https://" in capfd.readouterr().err


def test_the_script_needs_only_the_standard_library_of_python_3_8():
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    }
    assert imported <= sys.stdlib_module_names
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), "--help"], capture_output=True, text=True
    )
    assert "--backoff-seconds" in done.stdout


class Identity:
    """An identity server with scripted responses that records its requests."""

    def __init__(self):
        self.answers = {}
        self.redirects = {}
        self.asked = []
        self.status, self.said = 404, ""
        """Status and body where there is no answer."""
        self.failing = 0
        """How many requests to fail with 500."""


def pod_of(cloud, identity, folder, monkeypatch):
    """Sets the variables of a pod whose identity service has the address `identity`."""
    (folder / "token").write_text("of-the-pod")
    bucket = {"google": "gs://bucket", "azure": "https://account.blob.core.windows.net/box"}
    variables = {"CLOUDGAN_STORE": bucket.get(cloud, "s3://bucket")} | {
        "google": {"GCE_METADATA_HOST": identity.removeprefix("http://")},
        "eks": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{identity}/v1/credentials"},
        "irsa": {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/pods",
            "AWS_ENDPOINT_URL_STS": identity,
        },
        "azure": {
            "AZURE_FEDERATED_TOKEN_FILE": str(folder / "token"),
            "AZURE_AUTHORITY_HOST": identity,
            "AZURE_TENANT_ID": "tenant",
        },
    }[cloud]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def identity(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)  # the server of S3 sets them for the whole session
    found = Identity()

    def answer(asked):
        path = asked.target.partition("?")[0]
        headers = {name.lower(): value for name, value in asked.headers.items()}
        found.asked.append((asked.method, asked.target, headers, asked.body.decode()))
        if path in found.redirects:
            return Answer(307, headers={"Location": found.redirects[path]})
        if found.failing:
            found.failing -= 1
            return Answer(500, found.said)
        said = found.answers.get(path)
        return Answer(200 if said else found.status, said or found.said)

    with contextlib.closing(HttpServer(answer)) as server:
        found.address = server.url
        yield found


def test_pip_uses_no_index_and_unpacks_in_the_volume_of_the_packages_only(
    program, wheels, identity, tmp_path, monkeypatch
):
    seen, run = [], program.subprocess.run

    def noted(command, *, env, **options):
        seen.append(Path(env["TMPDIR"]))
        return run(command, env=env, **options)

    monkeypatch.setattr(program.subprocess, "run", noted)
    monkeypatch.setenv("CLOUDGAN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HTTPS_PROXY", identity.address)
    assert fetched(program, tmp_path, upload(FolderStore(tmp_path / "store"), wheels)) == 0
    assert [path.parent for path in seen] == [tmp_path / "site"]
    assert not seen[0].exists()
    assert not identity.asked


def test_on_google_cloud_the_token_is_requested_once_from_the_node(program, identity, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", identity.address.removeprefix("http://"))
    path = "/computeMetadata/v1/instance/service-accounts/default/token"
    identity.answers[path] = json.dumps({"access_token": "of-the-node", "expires_in": 3599})
    store = program.store_of("gs://bucket/a")
    for _ in range(2):
        request = store.request("wheels/x.whl")
        assert request.get_header("Authorization") == "Bearer of-the-node"
    assert request.full_url.startswith("https://storage.googleapis.com/storage/v1/b/bucket/o/a%2Fw")
    ((_, _, headers, _),) = identity.asked
    assert headers["metadata-flavor"] == "Google"


def test_a_service_account_key_is_exchanged_with_a_valid_signature(
    program, identity, monkeypatch, tmp_path
):
    pytest.importorskip("cryptography", reason="needs pip install '.[azure]'")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    login = {
        "type": "service_account",
        "client_email": "pod@project",
        "private_key": pem.decode(),
        "token_uri": f"{identity.address}/token",
    }
    (tmp_path / "key.json").write_text(json.dumps(login))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    identity.answers["/token"] = json.dumps({"access_token": "of-the-key"})
    request = program.store_of("gs://bucket").request("x")
    assert request.get_header("Authorization") == "Bearer of-the-key"
    ((_, _, _, body),) = identity.asked
    payload, _, signature = parse_qs(body)["assertion"][0].rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    key.public_key().verify(raw, payload.encode(), padding.PKCS1v15(), hashes.SHA256())


def test_an_s3_request_has_botocores_signature(program, monkeypatch):
    auth = pytest.importorskip("botocore.auth", reason="needs pip install '.[aws]'")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"value/of+{name}")
    monkeypatch.setenv("AWS_REGION", "eu-central-2")
    request = program.store_of("s3://bucket/a b").request("wheels/x+1.whl")
    assert request.host == "bucket.s3.eu-central-2.amazonaws.com"
    signed = {name.lower(): value for name, value in request.header_items()}
    theirs = AWSRequest(
        "GET", request.full_url, headers={n: t for n, t in signed.items() if n.startswith("x-amz")}
    )
    theirs.context["timestamp"] = signed["x-amz-date"]
    values = [f"value/of+AWS_{name}" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
    signer = auth.S3SigV4Auth(Credentials(*values), "s3", "eu-central-2")
    text = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    names = signer.signed_headers(signer.headers_to_sign(theirs))
    assert signed["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(theirs)}, SignedHeaders={names},"
        f" Signature={signer.signature(text, theirs)}"
    )


def test_on_eks_credentials_come_from_the_pod_identity_agent(
    program, identity, monkeypatch, tmp_path
):
    (tmp_path / "token").write_text("of-the-pod\n")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", identity.address + "/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    identity.answers["/v1/credentials"] = json.dumps(
        {"AccessKeyId": "KEY", "SecretAccessKey": "s", "Token": "session"}
    )
    request = program.store_of("s3://bucket").request("x")
    assert "Credential=KEY/" in request.get_header("Authorization")
    assert request.get_header("X-amz-security-token") == "session"
    ((_, _, headers, _),) = identity.asked
    assert headers["authorization"] == "of-the-pod"


def test_a_role_for_service_accounts_is_assumed_at_a_real_sts(program, s3, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("of-the-pod")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.address)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pods")
    key, secret, token = program.store_of("s3://bucket").login()
    assert key.startswith("ASIA")
    assert secret
    assert token


def test_a_store_without_any_login_is_a_permanent_error(
    program, identity, monkeypatch, tmp_path, capfd
):
    monkeypatch.setenv("CLOUDGAN_STORE", "s3://bucket")
    assert fetched(program, tmp_path, f"a-1.0-py3-none-any.whl {'0' * 64} 10\n") == 1
    assert "set AWS_ACCESS_KEY_ID" in capfd.readouterr().err


UNKNOWN = "AADSTS70021: No matching federated identity record found for presented assertion."
NO_ROLE = (
    "<Error><Code>InvalidIdentityToken</Code><Message>No OpenIDConnect provider</Message></Error>"
)


@pytest.mark.parametrize(
    "answer",
    [
        (500, "", "HTTP 500"),
        (503, "", "HTTP 503"),
        (404, "no association", "HTTP 404"),
        (400, json.dumps({"error_description": UNKNOWN}), "HTTP 400 AADSTS70021"),
        (400, NO_ROLE, "HTTP 400 InvalidIdentityToken"),
        (None, "", "Connection refused"),
    ],
    ids=str,
)
@pytest.mark.parametrize("cloud", ["google", "eks", "irsa", "azure"])
def test_an_identity_that_is_not_ready_lets_the_pod_try_again(
    program, identity, monkeypatch, tmp_path, *, capfd, cloud, answer
):
    identity.status, identity.said, shown = answer
    address = identity.address if identity.status else "http://127.0.0.1:9"
    pod_of(cloud, address, tmp_path, monkeypatch)
    listed = f"a-1.0-py3-none-any.whl {'0' * 64} 10\n"
    assert fetched(program, tmp_path, listed, denied_seconds=0.02) == 75
    output = capfd.readouterr().err
    assert shown in output
    assert "the pod needs" in output


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_an_identity_that_is_ready_after_some_tries_does_not_fail_the_pod(
    store, environment, wheels, identity, program, *, monkeypatch, tmp_path, capfd
):
    pod_of("eks", identity.address, tmp_path, monkeypatch)
    monkeypatch.setenv("CLOUDGAN_STORE", store.url)
    login = {"AccessKeyId": "KEY", "SecretAccessKey": "s", "Token": "session"}
    identity.answers["/v1/credentials"] = json.dumps(login)
    identity.failing = 9
    assert fetched(program, tmp_path, upload(store, wheels[:1])) == 0, capfd.readouterr().err
    assert "no credentials from" in capfd.readouterr().out


def test_on_azure_a_pod_exchanges_its_federated_token(program, identity, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", identity.address + "/")
    identity.answers["/tenant/oauth2/v2.0/token"] = json.dumps({"access_token": "of-azure"})
    request = program.store_of("https://account.blob.core.windows.net/box/a").request("x.whl")
    assert request.full_url == "https://account.blob.core.windows.net/box/a/x.whl"
    assert request.get_header("Authorization") == "Bearer of-azure"
    ((_, _, _, body),) = identity.asked
    assert parse_qs(body)["client_assertion"] == ["of-the-pod"]


def test_a_sas_token_is_in_the_url_but_in_no_message(program, monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=planted")
    store = program.store_of("http://127.0.0.1:9/account/box")
    assert store.request("x.whl").full_url.endswith("/box/x.whl?sv=1&sig=planted")
    monkeypatch.setenv("CLOUDGAN_STORE", "http://127.0.0.1:9/account/box")
    assert fetched(program, tmp_path, f"a-1.0-py3-none-any.whl {'0' * 64} 10\n") == 75
    assert "planted" not in str(capfd.readouterr())


def test_a_redirect_to_another_host_gets_no_login(program, identity):
    elsewhere = identity.address.replace("127.0.0.1", "localhost")
    identity.redirects = {"/away": f"{elsewhere}/there", "/near": f"{identity.address}/there"}
    identity.answers = {"/there": "content"}
    headers = {"Authorization": "Bearer planted", "x-amz-security-token": "planted"}
    for path, is_sent in (("/near", True), ("/away", False)):
        identity.asked.clear()
        assert program.request_text(identity.address + path, headers=headers) == "content"
        sent = identity.asked[-1][2]
        assert ("planted" in str(sent)) is is_sent


def test_a_redirect_without_encryption_is_an_error(program):
    handler = program.Redirects()
    request = program.urllib.request.Request("https://bucket.example/a")
    assert handler.redirect_request(request, None, 302, "", {}, "http://bucket.example/a") is None
