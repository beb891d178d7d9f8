"""ACR Tasks, with hand-written checks: the newest models of these requests are no dependency of the tests.

Where azure-mgmt-containerregistrytasks and azure-mgmt-containerregistry are installed, they
check the bodies too.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("azure.mgmt.core")

from azure.core.pipeline.transport import RequestsTransport

from cloudgan.core import assets
from cloudgan.core.errors import LaunchError
from cloudgan.launch.clouds.azure import ids, image_build
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.launch.clouds.azure.error_mapping import map_error
from cloudgan.launch.clouds.azure.image_build import AzureImageBuilder
from cloudgan.launch.clouds.azure.resources import (
    _SWEPT,
    ACCOUNTS,
    KINDS,
    REGISTRIES,
    parse_resource,
)
from cloudgan.launch.ops.image_build import build_image
from cloudgan.schema.image_order import ImageBuildRequest
from cloudgan.schema.plan import Target
from emulators.azure.rights import action_of

pytestmark = pytest.mark.slow

ACCOUNT = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
ORDER = ImageBuildRequest(
    Target(provider="azure", account=ACCOUNT, region="westeurope"),
    "",
    "gpu",
    "0.1-gpu-ab",
    "ab" * 32,
)
REGISTRY = ids.registry_name(ORDER.target)
GROUP = f"/subscriptions/{ACCOUNT}/resourceGroups/cloudgan-westeurope"
HERE = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/{REGISTRY}"
PULL = {"microsoft.containerregistry/registries/pull/read"}
"""Requests of `cloudgan image` to the registry, whose protocol tests/launch/container_registry tests."""
TASKS, MANAGEMENT = "2025-03-01-preview", "2025-11-01"
DIGEST = "sha256:" + "1a" * 32
# https://learn.microsoft.com/rest/api/container-registry-tasks/registries/schedule-run, read 2026-11-21
BUILD_FIELDS = {
    "type": str,
    "sourceLocation": str,
    "dockerFilePath": str,
    "imageNames": list,
    "isPushEnabled": bool,
    "arguments": list,
    "platform": dict,
    "agentConfiguration": dict,
    "timeout": int,
}


class Azure:
    """Resource group, registry and its tasks."""

    def __init__(self):
        self.resources, self.sent, self.uploads, self.troubles = {}, [], {}, []
        self.creating = 2
        """Requests until the registry is ready."""
        self.runs = [("Queued", ""), ("Running", "Step 1/9\n"), ("Succeeded", "Step 1/9\nDone\n")]
        self.why = ""
        self.upload_status = 201
        self.url = ""

    def answer(self, method, path, query, body):
        version = query.get("api-version", [""])[0]
        self.sent.append((method, path, body))
        if path == GROUP and version == "2021-04-01":
            return self.resource(method, path, body)
        if path == HERE and version == MANAGEMENT:
            return self.resource(method, path, body)
        if path.startswith(f"{HERE}/") and version == TASKS and HERE in self.resources:
            return self.task(method, path.removeprefix(f"{HERE}/"), body)
        self.troubles.append(f"{method} {path} {version}")
        return 404, {"error": {"code": "NotFound", "message": path}}

    def resource(self, method, path, body):
        if method == "DELETE":
            del self.resources[path]
            return 200, {}
        if method == "PUT":
            assert body["location"] == "westeurope"
            assert body["tags"]["cloudgan-shared"]
            self.resources[path] = body
            return 201, body
        if path not in self.resources:
            return 404, {"error": {"code": "ResourceNotFound", "message": path}}
        state = "Succeeded"
        if path == HERE and self.creating:
            self.creating, state = self.creating - 1, "Creating"
        body = self.resources[path]
        return 200, body | {"properties": body.get("properties", {}) | {"provisioningState": state}}

    def task(self, method, what, body):
        if (method, what) == ("POST", "listBuildSourceUploadUrl"):
            return 200, {"uploadUrl": f"{self.url}/source?sig=s", "relativePath": "src/1.tar.gz"}
        if (method, what) == ("POST", "scheduleRun"):
            self.check(body)
            return 202, {"properties": {"runId": "cb1", "status": "Queued"}}
        if (method, what) == ("POST", "runs/cb1/listLogSasUrl"):
            return 200, {"logLink": f"{self.url}/log?sig=s"}
        assert (method, what) == ("GET", "runs/cb1"), what
        (status, self.log) = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        run = {"runId": "cb1", "status": status}
        if status == "Succeeded":
            image = {"registry": f"{REGISTRY}.azurecr.io", "repository": "cloudgan"}
            run["outputImages"] = [image | {"tag": ORDER.tag, "digest": DIGEST}]
        return 200, {"properties": run | ({"runErrorMessage": self.why} if self.why else {})}

    def check(self, body):
        """Checks a body against the part of Azure's schema that cloudgan uses: these fields and types only."""
        assert set(body) == set(BUILD_FIELDS)
        assert {key: type(value) for key, value in body.items()} == BUILD_FIELDS
        assert body["type"] == "DockerBuildRequest"
        assert body["platform"] == {"os": "Linux", "architecture": "amd64"}
        assert body["sourceLocation"] in ("src/1.tar.gz", image_build.SOURCE)
        assert 300 <= body["timeout"] <= 28800, "in the documented bounds"
        for one in body["imageNames"]:
            assert re.fullmatch(r"[a-z0-9/]+:[\w.-]{1,128}", one)
        assert {frozenset(one) for one in body["arguments"]} == {
            frozenset({"name", "value", "isSecret"})
        }


@pytest.fixture
def azure():
    made = Azure()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if address.path == "/source":
                made.uploads[self.headers["x-ms-blob-type"]] = body
                self.write(made.upload_status, b"")
            elif address.path == "/log":
                self.write(200 if made.log else 404, made.log.encode())
            else:
                sent = json.loads(body) if body else None
                query = parse_qs(address.query)
                status, answer = made.answer(self.command, address.path, query, sent)
                self.write(status, json.dumps(answer).encode())

        do_DELETE = do_POST = do_PUT = do_GET  # noqa: N815

        def write(self, status, content):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()
    assert not made.troubles


class Token(NamedTuple):
    token: str
    expires_on: int


class Credential:
    """A credential of no account: the emulated service checks none."""

    def get_token(self, *scopes, **_):
        return Token("t", 2**31)

    def get_token_info(self, *scopes, **_):
        return Token("t", 2**31)


class Plain(RequestsTransport):
    """Azure's pipeline sends a token by TLS only; the emulated service has no TLS."""

    def send(self, request, **options):
        request.url = request.url.replace("https://127.0.0.1", "http://127.0.0.1")
        return super().send(request, **options)


@pytest.fixture
def api(azure):
    here = azure.url.replace("http:", "https:")
    return ArmApi(Credential(), base_url=here, transport=Plain(), attempts=1)


@pytest.fixture
def build(api):
    def run():
        run.shown, run.said = [], []
        builder = AzureImageBuilder(api, ACCOUNT, pause_seconds=0.0)
        return build_image(
            builder, ORDER, b"packed", run.said.append, run.shown.append, poll_seconds=0.0
        )

    return run


def test_an_image_is_built_in_a_registry_that_is_made_once(build, azure):
    assert build() == DIGEST
    assert build.shown == ["Step 1/9", "Done"]
    assert azure.uploads == {"BlockBlob": b"packed"}
    assert azure.resources[HERE]["tags"] == {"cloudgan-shared": "registry"}
    assert not azure.resources[HERE]["properties"]["adminUserEnabled"], "no shared password"
    assert len(build.said) == 3
    build()
    assert [one[0] for one in azure.sent].count("PUT") == 2, "group and registry, once"


def test_what_is_shown_is_what_is_sent_but_for_where_the_context_lies(build, azure):
    build()
    shown = [(s.method, s.path.partition("?")[0], s.body) for s in image_build.steps(ORDER)]
    shown[-1][2]["sourceLocation"] = "src/1.tar.gz"
    sent = [one for one in azure.sent if one[0] == "PUT" or one[2]]
    sent += [one for one in azure.sent if one[1].endswith("UploadUrl")]
    assert sorted(map(str, sent)) == sorted(map(str, shown))


def test_the_error_of_a_failed_build_has_the_reason_and_the_end_of_the_log(build, azure):
    azure.runs, azure.why = [("Failed", "Step 1/9\nno space\n")], "failed to run step ID: build"
    with pytest.raises(LaunchError, match=r"cb1 failed: Failed: failed to run step ID") as error:
        build()
    assert str(error.value).endswith("  no space")


def test_a_context_that_cannot_be_uploaded_starts_no_build(build, azure):
    azure.upload_status = 403
    with pytest.raises(LaunchError, match="cannot be uploaded"):
        build()
    assert not [one for one in azure.sent if one[1].endswith("scheduleRun")]


def test_the_name_of_a_registry_is_free_of_what_azure_does_not_take():
    assert re.fullmatch(r"[a-z0-9]{5,50}", REGISTRY)
    assert ids.registry_name(ORDER.target.model_copy(update={"region": "eastus"})) != REGISTRY
    unknown = ORDER._replace(target=ORDER.target.model_copy(update={"account": "<subscription>"}))
    assert image_build.image_name(unknown) == "<registry>.azurecr.io/cloudgan:0.1-gpu-ab"


def fields_of(model):
    return {field._rest_name: field for field in model._attr_to_rest_field.values()}


def test_the_requests_are_of_the_sdks_models():
    tasks = pytest.importorskip("azure.mgmt.containerregistrytasks.models")
    registries = pytest.importorskip("azure.mgmt.containerregistry.models")
    _, registry, _, build = image_build.steps(ORDER)
    for body, model in (
        (build.body, tasks.DockerBuildRequest()),
        (build.body["platform"], tasks.PlatformProperties()),
        (build.body["agentConfiguration"], tasks.AgentProperties()),
        (build.body["arguments"][0], tasks.Argument()),
        (registry.body, registries.Registry()),
        (registry.body["sku"], registries.Sku()),
        (registry.body["properties"], registries.RegistryProperties()),
    ):
        assert set(body) <= set(fields_of(model)), type(model).__name__


def test_who_builds_and_tears_down_needs_exactly_what_the_role_lists(build, azure, api):
    build()
    cloud = AzureClient(api, ORDER.target)
    azure.resources[HERE]["id"] = HERE
    cloud.delete(cloud.refresh(parse_resource(azure.resources[HERE])))
    assert HERE not in azure.resources
    role = json.loads(assets.read_text("deploy/azure/image-role.json"))
    asked = {action_of(method, path) for method, path, _ in azure.sent}
    assert asked | PULL == {action.lower() for action in role["Actions"]}
    assert role["Actions"] == sorted(role["Actions"])
    assert not [action for action in role["Actions"] if "*" in action]


def test_the_error_of_a_builder_without_rights_names_the_role_that_has_them():
    refusal = {"error": {"code": "AuthorizationFailed", "message": "not you"}}
    asked = f"PUT {HERE}"
    assert "deploy/azure/image-role.json" in str(map_error(403, refusal, asked))
    assert "deploy/azure/setup-role.json" in str(map_error(403, refusal, f"PUT {GROUP}"))


def test_a_teardown_finds_the_registry_and_takes_it_before_what_holds_a_bucket():
    found = {"id": HERE, "location": "westeurope", "tags": {"cloudgan-shared": "registry"}}
    registry = parse_resource(found | {"properties": {"provisioningState": "Succeeded"}})
    assert (registry.shared, registry.state, registry.is_free) == ("registry", "ready", False)
    assert registry.deletion_order < KINDS[ACCOUNTS][1]
    assert REGISTRIES in _SWEPT
