"""The registry emulator works with skopeo."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from cloudgan.launch.container_registry.client import Registry
from cloudgan.launch.container_registry.image_reference import resolve
from cloudgan.launch.container_registry.login import saved_login
from emulators.registry.content import INDEX, MANIFEST, Content

pytestmark = pytest.mark.skipif(
    not shutil.which("skopeo"), reason="needs skopeo: apt-get install skopeo"
)
LOGIN = "marie:radium"


def skopeo(*arguments, check=True):
    done = subprocess.run(["skopeo", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0 or not check, done.stderr
    return done


@pytest.fixture
def layout(tmp_path):
    """An image for two platforms as a folder that skopeo reads (OCI image layout 1.0)."""
    made = Content()
    digest = made.put_index("lab/gan", "1", "linux/amd64", "linux/arm64")
    folder = tmp_path / "layout"
    (folder / "blobs" / "sha256").mkdir(parents=True)
    manifests = {name: one.content for name, one in made.manifests["lab/gan"].items()}
    for name, content in (made.blobs | manifests).items():
        (folder / "blobs" / "sha256" / name.partition(":")[2]).write_bytes(content)
    size = len(made.manifests["lab/gan"][digest].content)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    entry = {"mediaType": INDEX, "digest": digest, "size": size}
    entry["annotations"] = {"org.opencontainers.image.ref.name": "1"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return folder, digest


@pytest.mark.parametrize("access", ["open", "token", "basic"])
def test_what_skopeo_pushes_is_resolved_to_the_digest_that_skopeo_sees(
    registry, layout, access, tmp_path
):
    folder, digest = layout
    registry.access, registry.users = access, {"marie": "radium"}
    where = f"docker://{registry.host}/lab/gan:1"
    login = [] if access == "open" else [f"--dest-creds={LOGIN}"]
    insecure = "--dest-tls-verify=false"
    skopeo("copy", "--all", "--preserve-digests", insecure, *login, f"oci:{folder}:1", where)
    login = [] if access == "open" else [f"--creds={LOGIN}"]
    raw = skopeo("inspect", "--raw", "--tls-verify=false", *login, where).stdout
    assert json.loads(raw)["mediaType"] == INDEX
    auth = tmp_path / "auth.json"
    if access != "open":
        file = f"--authfile={auth}"
        user, password = LOGIN.split(":")
        pair = (f"--username={user}", f"--password={password}")
        skopeo("login", file, "--tls-verify=false", *pair, registry.host)
    found = resolve(
        f"{registry.host}/lab/gan:1", lambda host: Registry(host, saved_login(host, [auth]))
    )
    assert found.image == f"{registry.host}/lab/gan:1@{digest}"
    assert found.platforms == ("linux/amd64", "linux/arm64")


def test_skopeo_finds_what_the_registry_was_given_and_not_what_it_was_not(registry):
    digest = registry.put_image("lab/gan", "1")
    where = f"docker://{registry.host}/lab/gan"
    outcome = skopeo("inspect", "--raw", "--tls-verify=false", f"{where}:1").stdout
    assert json.loads(outcome)["mediaType"] == MANIFEST
    assert (
        json.loads(skopeo("inspect", "--tls-verify=false", f"{where}:1").stdout)["Digest"] == digest
    )
    assert json.loads(skopeo("list-tags", "--tls-verify=false", where).stdout)["Tags"] == ["1"]
    refused = skopeo("inspect", "--tls-verify=false", f"{where}:2", check=False)
    assert refused.returncode
    assert "manifest unknown" in refused.stderr.lower()
