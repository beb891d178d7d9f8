"""CodeBuild and ECR with botocore's models; moto keeps the resources, and runs no build.

Build responses are defined here and checked against the models.
"""

from __future__ import annotations

import json

import pytest

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")

from botocore.validate import ParamValidator

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.launch.clouds.aws import image_requests
from cloudgan.launch.clouds.aws.account import Account
from cloudgan.launch.clouds.aws.error_mapping import RefusedError
from cloudgan.launch.clouds.aws.iam_roles import inline_policy
from cloudgan.launch.clouds.aws.image_build import AwsImageBuilder
from cloudgan.launch.ops.image_build import build_image
from cloudgan.schema.image_order import ImageBuildRequest
from cloudgan.schema.plan import Target
from cloudgan.storage.folder import FolderStore

pytestmark = pytest.mark.slow

REGION, ACCOUNT = "eu-west-1", "123456789012"
ORDER = ImageBuildRequest(
    Target(provider="aws", account=ACCOUNT, region=REGION),
    "s3://cloudgan-123456789012-eu-west-1",
    "gpu",
    "0.1-gpu-ab",
    "ab" * 32,
)
NAME = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/cloudgan:0.1-gpu-ab"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": DOCKER, "config": {}, "layers": []})


class Watched(Account):
    """Records requests, and returns the build responses of a test."""

    def __init__(self, session):
        super().__init__(session, attempts=1)
        self.asked = []
        self.looks = []
        """Pairs of a BatchGetBuilds response and the log lines at that time."""
        self.refusals = []

    def request(self, service, region, operation, body=None):
        self.asked.append((operation, dict(body or {})))
        if self.refusals and self.refusals[0][0] == operation:
            raise self.refusals.pop(0)[1]
        if operation == "BatchGetBuilds":
            self.build, self.lines = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            return self._held("codebuild", operation, {"builds": [self.build]})
        if operation == "GetLogEvents":
            begin = int(dict(body or {}).get("nextToken", "f/0")[2:])
            events = [{"message": f"{one}\n", "timestamp": 1} for one in self.lines[begin:]]
            token = f"f/{max(begin, len(self.lines))}"
            return self._held("logs", operation, {"events": events, "nextForwardToken": token})
        return super().request(service, region, operation, body)

    def _held(self, service, operation, answer):
        shape = self.session.client(service, region_name=REGION).meta.service_model
        report = ParamValidator().validate(answer, shape.operation_model(operation).output_shape)
        assert not report.has_errors(), report.generate_report()
        return answer


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with moto.mock_aws():
        made = Watched(boto3.Session(region_name=REGION))
        boto3.client("iam").create_role(RoleName="cloudgan-image", AssumeRolePolicyDocument="{}")
        made.looks = [(response("IN_PROGRESS"), ["one"]), (response("SUCCEEDED"), ["one", "two"])]
        yield made


@pytest.fixture
def bucket(tmp_path):
    return FolderStore(tmp_path / "bucket")


@pytest.fixture
def build(aws, bucket):
    def run(*, is_pushed=True):
        run.shown, run.said = [], []
        builder = AwsImageBuilder(aws, ACCOUNT, store=lambda _: bucket, role_seconds=0.0)

        def say(text):
            run.said.append(text)
            if text.startswith("build ") and is_pushed:
                ecr = boto3.client("ecr", region_name=REGION)
                ecr.put_image(repositoryName="cloudgan", imageManifest=MANIFEST, imageTag=ORDER.tag)

        return build_image(builder, ORDER, b"packed", say, run.shown.append, poll_seconds=0.0)

    return run


def response(status, **more):
    logs = {"groupName": "/cloudgan/image", "streamName": "b-1"}
    return {"id": "cloudgan-image:b-1", "buildStatus": status, "logs": logs} | more


def test_an_image_is_built_by_a_project_created_once(build, aws, bucket):
    digest = build()
    assert digest.startswith("sha256:")
    assert build.shown == ["one", "two"]
    assert len(build.said) == 1 + 3, "registry, log group, builder; then the build"
    assert bucket.list() == (ORDER.object_name("zip"),)
    (project,) = boto3.client("codebuild", region_name=REGION).batch_get_projects(
        names=["cloudgan-image"]
    )["projects"]
    assert project["environment"]["privilegedMode"]
    assert project["tags"] == [{"key": "cloudgan-shared", "value": "builder"}]
    with pytest.raises(Exception, match="ImageAlreadyExists"):
        build()
    assert build.said[0].startswith("build "), "the second time all is there"


def test_the_shown_requests_are_those_sent(build, aws):
    build()
    shown = [(s.method, s.body) for s in image_requests.steps(ORDER) if s.at == "cloud"]
    sent = [one for one in aws.asked if one[0] in {method for method, _ in shown}]
    assert sent == shown
    (variables,) = (b["environmentVariablesOverride"] for m, b in shown if m == "StartBuild")
    assert {one["name"]: one["value"] for one in variables} == {
        "IMAGE": NAME,
        "KIND": "gpu",
        "CONTEXT_SHA256": ORDER.context_hash,
    }


def test_requests_match_the_service_models(aws):
    for step in image_requests.steps(ORDER):
        if step.at != "cloud":
            continue
        service, _, region = step.path.partition("/")
        model = aws.session.client(service, region_name=region).meta.service_model
        found = ParamValidator().validate(step.body, model.operation_model(step.method).input_shape)
        assert not found.has_errors(), found.generate_report()


def test_the_builder_may_push_to_its_own_repository_only():
    _, document = inline_policy(ACCOUNT, "cloudgan-image")
    for statement in json.loads(document)["Statement"]:
        assert statement["Resource"] != "*" or statement["Action"] == "ecr:GetAuthorizationToken"


def test_a_build_changes_no_role_and_names_setup_where_the_role_is_missing(build, aws):
    build()
    assert {name for name, _ in aws.asked if "Role" in name} == {"GetRole"}
    boto3.client("iam").delete_role(RoleName="cloudgan-image")
    with pytest.raises(ConfigError, match="cloudgan setup --provider=aws --region=eu-west-1"):
        build()


def test_a_build_waits_for_its_new_role_to_propagate(build, aws):
    text = "CodeBuild is not authorized to perform: sts:AssumeRole on arn:..."
    aws.refusals = [("CreateProject", RefusedError(text, "InvalidInputException"))] * 3
    assert build().startswith("sha256:")
    assert [name for name, _ in aws.asked].count("CreateProject") == 4


def test_a_failed_build_shows_its_phase_and_last_lines(build, aws):
    contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": "exit status 1"}]
    phases = [
        {"phaseType": "INSTALL", "phaseStatus": "SUCCEEDED"},
        {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts},
    ]
    aws.looks = [(response("FAILED", phases=phases), ["one", "ERROR: no such file"])]
    with pytest.raises(
        LaunchError, match=r"FAILED in phase BUILD of cloudgan-image \(exit status 1"
    ):
        build(is_pushed=False)
    assert build.shown[-1] == "ERROR: no such file"


def test_a_build_without_a_pushed_image_fails(build, aws):
    with pytest.raises(LaunchError, match="the image is not in the registry"):
        build(is_pushed=False)


def test_a_missing_log_is_no_error(build, aws):
    aws.refusals = [("GetLogEvents", RefusedError("not there", "ResourceNotFoundException"))]
    assert build().startswith("sha256:")
    assert build.shown == ["one", "two"]
