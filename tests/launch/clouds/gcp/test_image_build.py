"""Cloud Build and Artifact Registry, checked against Google's discovery documents."""

from __future__ import annotations

import json

import pytest
import yaml

pytest.importorskip("googleapiclient", reason="needs google-api-python-client")
requests = pytest.importorskip("requests")

from cloudgan.api.pod_software import mirror_image, pin_image
from cloudgan.core import assets
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.progress import Silent
from cloudgan.launch.clouds.gcp import image_requests
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.image_build import GcpImageBuilder
from cloudgan.launch.container_registry.client import Registry
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.launch.ops.image_build import build_image
from cloudgan.schema.image_order import ImageBuildRequest
from cloudgan.schema.plan import Target
from cloudgan.storage.folder import FolderStore
from emulators.gcp import GoogleServer, Route, serving
from emulators.gcp.artifact_registry import ArtifactRegistry
from emulators.gcp.discovery import api
from emulators.gcp.server import TOKEN
from emulators.registry import local_registry

ORDER = ImageBuildRequest(
    Target(provider="gcp", account="lab", region="europe-west4"),
    "gs://cloudgan-lab-europe-west4",
    "gpu",
    "0.1-gpu-ab",
    "ab" * 32,
)
DIGEST = "sha256:" + "1a" * 32
NAME = "europe-west4-docker.pkg.dev/lab/cloudgan/trainer:0.1-gpu-ab"
REPOSITORIES = "artifactregistry.projects.locations.repositories"
PULL = {"artifactregistry.repositories.downloadArtifacts"}
"""Permission for the registry protocol, which tests/launch/container_registry tests."""


class Google:
    """The state of the two services."""

    def __init__(self, store):
        self.store = store
        self.builds = []
        self.statuses = ["QUEUED", "WORKING", "SUCCESS"]
        self.detail = ""

    def routes(self):
        return {
            "cloudbuild.projects.locations.builds.create": Route(
                self.create_build, ("cloudbuild.builds.create",)
            ),
            "cloudbuild.projects.locations.builds.get": Route(
                self.get_build, ("cloudbuild.builds.get",)
            ),
        }

    def create_build(self, call):
        self.builds.append(call.body)
        build = {"id": "b-1", "status": "QUEUED"} | call.body
        kind = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
        return {"name": "operations/build/lab/1", "metadata": {"@type": kind, "build": build}}

    def get_build(self, call):
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status != "QUEUED":
            FolderStore.put(self.store, "images/logs/log-b-1.txt", f"Step 1/9\n{status}\n".encode())
        build = {"id": "b-1", "status": status}
        if status == "SUCCESS":
            build["results"] = {"images": [{"name": NAME, "digest": DIGEST}]}
        return build | ({"statusDetail": self.detail} if self.detail else {})


class Bucket(FolderStore):
    """Records the permissions that its use requires."""

    def __init__(self, folder):
        super().__init__(folder)
        self.rights = set()

    def put(self, name, content, **how):
        self.rights |= {"storage.objects.create", "storage.objects.delete"}
        super().put(name, content, **how)

    def read(self, name):
        self.rights.add("storage.objects.get")
        return super().read(name)


@pytest.fixture
def bucket(tmp_path):
    return Bucket(tmp_path / "bucket")


@pytest.fixture
def google(bucket):
    made = Google(bucket)
    apis = (api("cloudbuild", "v1"), api("artifactregistry", "v1"))
    with serving(GoogleServer(apis, made.routes())) as made.server:
        made.registry = ArtifactRegistry(made.server)
        yield made


@pytest.fixture
def build(google, bucket):
    def run():
        run.shown = []
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Authorization"] = f"Bearer {TOKEN}"
            client = GoogleApi(
                session, endpoint=google.server.url, patience_seconds=0.5, pause_seconds=0.01
            )
            builder = GcpImageBuilder(client, "lab", store=lambda _: bucket, pause_seconds=0.01)
            return build_image(
                builder, ORDER, b"packed", lambda _: None, run.shown.append, poll_seconds=0.0
            )

    return run


def test_an_image_is_built_from_the_bucket_into_a_repository_created_once(build, google, bucket):
    assert build() == DIGEST
    assert build.shown == ["Step 1/9", "WORKING"], "the log is rewritten, but each line shown once"
    (repository,) = google.registry.repositories.values()
    assert repository["labels"] == {"cloudgan-shared": "registry"}
    (sent,) = google.builds
    source = sent["source"]["storageSource"]
    assert source["bucket"] == "cloudgan-lab-europe-west4"
    assert bucket.read(source["object"]) == b"packed"
    assert sent["images"] == [NAME]
    assert "--build-arg=KIND=gpu" in sent["steps"][1]["args"]
    google.statuses = ["SUCCESS"]
    build()
    assert google.server.methods().count(f"{REPOSITORIES}.create") == 1


def test_the_shown_requests_are_those_sent(build, google):
    build()
    shown = {step.ensure: step.body for step in image_requests.steps(ORDER) if step.body}
    sent = [one.body for one in google.server.seen if one.verb == "POST"]
    assert sent == list(shown.values())


def test_a_failed_build_shows_its_reason_and_last_lines(build, google):
    google.statuses, google.detail = ["FAILURE"], "Build step failure: step 0"
    with pytest.raises(LaunchError, match=r"b-1 failed: FAILURE: Build step failure") as error:
        build()
    assert "  Step 1/9\n  FAILURE" in str(error.value)


def test_a_repository_created_concurrently_is_used(build, google):
    google.server.lose_answer(f"{REPOSITORIES}.create")
    assert build() == DIGEST


def test_a_build_uses_exactly_the_permissions_of_its_role(build, google, bucket):
    role = yaml.safe_load(assets.read_text("deploy/gcp/image.yaml"))["includedPermissions"]
    google.server.tokens[TOKEN] = frozenset(role)
    build()
    asked = {right for call in google.server.seen for right in call.permissions} | bucket.rights
    assert asked | PULL == set(role)
    assert sorted(role) == role, "each once"


def test_a_build_without_permissions_names_the_role(build, google):
    google.server.tokens[TOKEN] = frozenset()
    with pytest.raises(CredentialsError, match=r"repositories.get.*deploy/gcp/image.yaml"):
        build()


def test_the_requests_hold_no_secret():
    assert "secret" not in json.dumps(
        [s.model_dump(mode="json") for s in image_requests.steps(ORDER)]
    )


def test_the_public_image_is_copied_into_the_repository_and_the_manifest_names_the_copy(
    google, registry, plan_of, monkeypatch
):
    registry.put_index("library/python", "3.11-slim", "linux/arm64", "linux/amd64")
    session = requests.Session()
    session.trust_env = False
    session.headers["Authorization"] = f"Bearer {TOKEN}"
    client = GoogleApi(session, endpoint=google.server.url, pause_seconds=0.01)
    builder = GcpImageBuilder(client, "lab", pause_seconds=0.01)
    monkeypatch.setattr("cloudgan.api.pod_software.open_image_builder", lambda target: builder)
    workers = {"image": "python:3.11-slim", "mirror_of": "python:3.11-slim"}
    target = {"provider": "gcp", "account": "lab", "region": "europe-west4"}
    plan = plan_of(workers=workers, target=target)
    with local_registry() as own:
        addresses = {"docker.io": registry.url, "europe-west4-docker.pkg.dev": own.url}

        def open_one(host):
            return Registry(host, address=addresses[host])

        pinned = pin_image(plan, None, print, open_one)
        copy = "europe-west4-docker.pkg.dev/lab/cloudgan/trainer:python-3.11-slim"
        name, _, digest = pinned.workers.image.partition("@")
        assert (name, pinned.workers.mirror_of) == (copy, f"python:3.11-slim@{digest}")
        assert own.asked == [], "nothing is written before the user has confirmed"
        mirror_image(pinned, Silent(), open_one)
        found, manifest = own.manifest("lab/cloudgan/trainer", "python-3.11-slim")
        assert found == digest
        assert own.missing_parts("lab/cloudgan/trainer", manifest) == []
        assert len(google.registry.repositories) == 1
        job = manifest_steps(pinned)[-1].body["spec"]["template"]["spec"]
        images = {one["image"] for one in (*job["containers"], *job["initContainers"])}
        assert images == {f"{copy}@{digest}"}
        registry.put_index("library/python", "3.11-slim", "linux/amd64", "linux/s390x")
        resumed = pin_image(plan, pinned, print, open_one)
        assert resumed.workers == pinned.workers, "a resumed run keeps its image"
