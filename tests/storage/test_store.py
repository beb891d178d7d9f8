import subprocess
import sys

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import open_store

AZURE = "https://acme.blob.core.windows.net"


def test_a_path_is_a_folder(tmp_path):
    store = open_store(str(tmp_path / "a b"))
    store.put("x", b"1")
    assert isinstance(store, FolderStore)
    assert store.url == str(tmp_path / "a b")
    assert (tmp_path / "a b" / "x").read_bytes() == b"1"


def test_a_file_url_is_the_same_folder(tmp_path):
    open_store(f"file://{tmp_path}/a%20b").put("x", b"1")
    assert open_store(str(tmp_path / "a b")).list() == ("x",)


def test_a_killed_writers_temporary_file_is_no_object(tmp_path):
    (tmp_path / "a.123-abcd.tmp").write_bytes(b"half")
    (tmp_path / "b").write_bytes(b"whole")
    assert FolderStore(tmp_path).list() == ("b",)


def test_a_relative_path_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store("runs/demo").put("x", b"1")
    assert (tmp_path / "runs" / "demo" / "x").exists()


def test_opening_a_folder_creates_nothing(tmp_path):
    assert open_store(str(tmp_path / "none")).list() == ()
    assert not (tmp_path / "none").exists()


VALID = r"unknown store type .* Valid: .*s3://.*gs://BUCKET"
NO_ADDRESSES = (
    ("gss://bucket/x", VALID),
    ("gss://bucket/x", "Did you mean 'gs'"),
    ("az://container/x", VALID),
    ("ftp://host/x", VALID),
    ("", "URL is empty"),
    ("file://server/share", "no folder of this machine"),
    ("s3:///x", "names no bucket"),
    ("s3://key:hunter2@bucket/x?sig=hunter2", "contains credentials"),
    ("s3://bucket/x?versionId=hunter2", "contains credentials"),
    ("s3://bucket/a/../b", r"'\.\.' in its path"),
    (AZURE, "names no container"),
    ("https://example.org/c/x", "names no container"),
)


@pytest.mark.parametrize(("url", "reason"), NO_ADDRESSES)
def test_what_is_no_address_of_a_store_is_refused_without_its_secrets(url, reason):
    for sdk in ("boto3", "azure.storage.blob"):
        pytest.importorskip(sdk)
    with pytest.raises(ConfigError, match=reason) as raised:
        open_store(url)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["gs", "s3", "https"])
def test_a_missing_sdk_is_reported_with_the_install_command(scheme):
    extra = {"gs": "gcp", "s3": "aws", "https": "azure"}[scheme]
    url = f"{AZURE}/c/x" if scheme == "https" else f"{scheme}://bucket/x"
    program = (
        "import sys\n"
        "for name in ('boto3', 'google.cloud', 'azure.core'): sys.modules[name] = None\n"
        "from cloudgan.core.errors import ConfigError\n"
        "from cloudgan.storage.store import open_store\n"
        f"try: open_store({url!r})\n"
        "except ConfigError as error: print(error)\n"
    )
    command = (sys.executable, "-c", program)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"pip install '.[{extra}]'" in output


def test_the_package_imports_no_sdk():
    program = (
        "import sys, cloudgan.storage.store\n"
        "print([n for n in ('boto3', 'botocore', 'google.cloud', 'azure', 'numpy')"
        " if n in sys.modules])"
    )
    command = (sys.executable, "-c", program)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket//runs/demo/", "s3://bucket/runs/demo"),
        ("s3://bucket", "s3://bucket"),
        (f"{AZURE}/runs/demo/", f"{AZURE}/runs/demo"),
        (f"{AZURE}/runs", f"{AZURE}/runs"),
    ],
)
def test_an_address_names_bucket_and_prefix(s3, monkeypatch, url, shown):
    pytest.importorskip("azure.storage.blob")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=hunter2")
    assert open_store(url).url == shown


def test_an_invalid_s3_bucket_name_is_refused(s3):
    with pytest.raises(ConfigError, match="not a valid S3 address"):
        open_store("s3://bad_$name/x").list()


@pytest.mark.parametrize(
    ("url", "variables", "said"),
    [
        ("s3://bucket/x", {"AWS_ACCESS_KEY_ID": ""}, "set AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x", {"AWS_PROFILE": "missing-profile"}, "missing-profile"),
        ("gs://bucket/x", {}, "gcloud auth application-default login"),
    ],
    ids=["AWS keys", "AWS profile", "Google"],
)
@pytest.mark.usefixtures("s3")
def test_a_missing_login_is_reported(monkeypatch, tmp_path, url, variables, said):
    pytest.importorskip("google.cloud.storage")
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS")
    for name, value in (dict.fromkeys(files, str(tmp_path / "none")) | variables).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(CredentialsError, match=said):
        open_store(url).list()
