from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

AZURE = "https://acme.blob.core.windows.net"


def test_a_path_is_a_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "a b"))
    store.put("x", b"1")
    assert isinstance(store, FolderStore)
    assert store.url == str(tmp_path / "a b")
    assert (tmp_path / "a b" / "x").read_bytes() == b"1"


def test_a_file_url_is_the_same_folder(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/a%20b").put("x", b"1")
    assert open_store(str(tmp_path / "a b")).list() == ("x",)


def test_a_killed_writers_temporary_file_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "a.123-abcd.tmp").write_bytes(b"half")
    (tmp_path / "b").write_bytes(b"whole")
    assert FolderStore(tmp_path).list() == ("b",)


def test_a_relative_path_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("runs/demo").put("x", b"1")
    assert (tmp_path / "runs" / "demo" / "x").exists()


def test_opening_a_folder_creates_nothing(tmp_path: Path) -> None:
    assert open_store(str(tmp_path / "none")).list() == ()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("url", ["gss://bucket/x", "az://container/x", "ftp://host/x"])
def test_an_unknown_scheme_is_refused_with_the_valid_ones(url: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown store type .* Valid: .*s3://.*gs://BUCKET"):
        open_store(url)


def test_a_misspelt_scheme_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'gs'"):
        open_store("gss://bucket/x")


def test_an_empty_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="URL is empty"):
        open_store("")


def test_a_file_url_of_another_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="no folder of this machine"):
        open_store("file://server/share")


@pytest.mark.parametrize("scheme", ["gs", "s3", "https"])
def test_a_missing_sdk_is_reported_with_the_install_command(scheme: str) -> None:
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


def test_the_package_imports_no_sdk() -> None:
    program = (
        "import sys, cloudgan.storage.store\n"
        "print([n for n in ('boto3', 'botocore', 'google.cloud', 'azure', 'numpy')"
        " if n in sys.modules])"
    )
    command = (sys.executable, "-c", program)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_an_s3_url_names_bucket_and_prefix(s3: object) -> None:
    store = open_store("s3://bucket//runs/demo/")
    assert store.url == "s3://bucket/runs/demo"


def test_a_bucket_without_a_prefix_is_a_store(s3: object) -> None:
    assert open_store("s3://bucket").url == "s3://bucket"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3:///x", "names no bucket"),
        ("s3://key:secret@bucket/x", "contains credentials"),
        ("s3://bucket/x?versionId=1", "contains credentials"),
        ("s3://bucket/a/../b", r"'\.\.' in its path"),
    ],
)
def test_an_invalid_url_is_refused(s3: object, url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_store(url)


def test_a_secret_in_a_url_is_not_shown(s3: object) -> None:
    with pytest.raises(ConfigError) as raised:
        open_store("s3://key:hunter2@bucket/x?sig=hunter2")
    assert "hunter2" not in str(raised.value)


def test_an_invalid_s3_bucket_name_is_refused(s3: object) -> None:
    with pytest.raises(ConfigError, match="not a valid S3 address"):
        open_store("s3://bad_$name/x").list()


def test_missing_aws_credentials_are_reported(
    s3: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="set AWS_ACCESS_KEY_ID"):
        open_store("s3://bucket/x").list()


def test_a_missing_aws_profile_is_reported(s3: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "missing-profile")
    with pytest.raises(CredentialsError, match="missing-profile"):
        open_store("s3://bucket/x").list()


def test_missing_google_credentials_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("google.cloud.storage")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(CredentialsError, match="gcloud auth application-default login"):
        open_store("gs://bucket/x").list()


def test_an_azure_url_names_account_container_and_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("azure.storage.blob")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=hunter2")
    assert open_store(f"{AZURE}/runs/demo/").url == f"{AZURE}/runs/demo"
    assert open_store(f"{AZURE}/runs").url == f"{AZURE}/runs"


@pytest.mark.parametrize("url", [AZURE, "https://example.org/c/x"])
def test_an_https_url_without_a_container_is_refused(url: str) -> None:
    pytest.importorskip("azure.storage.blob")
    with pytest.raises(ConfigError, match="names no container"):
        open_store(url)
