"""CodeBuild and ECR by botocore's own models; moto keeps what is made, and runs no build.

What a build says is therefore written here, and held to the models of the answers.
"""

from __future__ import annotations

import json

import pytest

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")

from botocore.validate import ParamValidator

from cloudgan.core.errors import LaunchError
from cloudgan.core.image_order import ImageOrder
from cloudgan.core.plan import Place
from cloudgan.launching.image_building import build_image
from cloudgan.providers.aws import image_requests
from cloudgan.providers.aws.account import Account
from cloudgan.providers.aws.image_build import AwsImageBuilder
from cloudgan.providers.aws.refusal import RefusedError
from cloudgan.stores.folder import FolderStore

REGION, ACCOUNT = "eu-west-1", "123456789012"
ORDER = ImageOrder(
    Place(provider="aws", account=ACCOUNT, region=REGION),
    "s3://cloudgan-123456789012-eu-west-1",
    "gpu",
    "0.1-gpu-ab",
    "ab" * 32,
)
NAME = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/cloudgan:0.1-gpu-ab"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": DOCKER, "config": {}, "layers": []})


class Watched(Account):
    """Notes what is asked, and says of builds what a test wants."""

    def __init__(self, session):
        super().__init__(session, attempts=1)
        self.asked = []
        self.looks = []
        """Pairs of a build, as BatchGetBuilds tells it, and the lines of its log by then."""
        self.refusals = []

    def ask(self, service, region, operation, body=None):
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
        return super().ask(service, region, operation, body)

    def _held(self, service, operation, answer):
        shape = self.session.client(service, region_name=REGION).meta.service_model
        told = ParamValidator().validate(answer, shape.operation_model(operation).output_shape)
        assert not told.has_errors(), told.generate_report()
        return answer


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with moto.mock_aws():
        made = Watched(boto3.Session(region_name=REGION))
        made.looks = [(told("IN_PROGRESS"), ["one"]), (told("SUCCEEDED"), ["one", "two"])]
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


def told(status, **more):
    logs = {"groupName": "/cloudgan/image", "streamName": "b-1"}
    return {"id": "cloudgan-image:b-1", "buildStatus": status, "logs": logs} | more


def test_an_image_is_built_by_a_builder_that_is_made_once(build, aws, bucket):
    digest = build()
    assert digest.startswith("sha256:")
    assert build.shown == ["one", "two"]
    assert len(build.said) == 1 + 4, "registry, log group, role, builder; then the build"
    assert bucket.list() == (ORDER.object_name("zip"),)
    (project,) = boto3.client("codebuild", region_name=REGION).batch_get_projects(
        names=["cloudgan-image"]
    )["projects"]
    assert project["environment"]["privilegedMode"]
    assert project["tags"] == [{"key": "cloudgan-shared", "value": "builder"}]
    with pytest.raises(Exception, match="ImageAlreadyExists"):
        build()
    assert build.said[0].startswith("build "), "the second time all is there"


def test_what_is_shown_is_what_is_sent(build, aws):
    build()
    shown = [(s.method, s.body) for s in image_requests.steps(ORDER) if s.at == "cloud"]
    sent = [one for one in aws.asked if one[0] in {method for method, _ in shown}]
    assert sent == shown
    (variables,) = (b["environmentVariablesOverride"] for m, b in shown if m == "StartBuild")
    assert {one["name"]: one["value"] for one in variables} == {"IMAGE": NAME, "KIND": "gpu"}


def test_every_request_is_one_of_amazons_models(aws):
    for step in image_requests.steps(ORDER):
        if step.at != "cloud":
            continue
        service, _, region = step.path.partition("/")
        model = aws.session.client(service, region_name=region).meta.service_model
        found = ParamValidator().validate(step.body, model.operation_model(step.method).input_shape)
        assert not found.has_errors(), found.generate_report()


def test_the_builder_may_push_to_its_own_repository_only():
    (policy,) = (s.body for s in image_requests.steps(ORDER) if s.method == "PutRolePolicy")
    for statement in json.loads(policy["PolicyDocument"])["Statement"]:
        assert statement["Resource"] != "*" or statement["Action"] == "ecr:GetAuthorizationToken"


def test_a_role_that_is_not_known_yet_is_waited_for(build, aws):
    text = "CodeBuild is not authorized to perform: sts:AssumeRole on arn:..."
    aws.refusals = [("CreateProject", RefusedError(text, "InvalidInputException"))] * 3
    assert build().startswith("sha256:")
    assert [name for name, _ in aws.asked].count("CreateProject") == 4


def test_a_failed_build_tells_the_phase_and_how_its_log_ends(build, aws):
    contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": "exit status 1"}]
    phases = [
        {"phaseType": "INSTALL", "phaseStatus": "SUCCEEDED"},
        {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts},
    ]
    aws.looks = [(told("FAILED", phases=phases), ["one", "ERROR: no such file"])]
    with pytest.raises(
        LaunchError, match=r"FAILED in phase BUILD of cloudgan-image \(exit status 1"
    ):
        build(is_pushed=False)
    assert build.shown[-1] == "ERROR: no such file"


def test_a_build_that_pushed_nothing_is_no_success(build, aws):
    with pytest.raises(LaunchError, match="the registry has no such image"):
        build(is_pushed=False)


def test_a_log_that_is_not_there_yet_is_no_error(build, aws):
    aws.refusals = [("GetLogEvents", RefusedError("not there", "ResourceNotFoundException"))]
    assert build().startswith("sha256:")
    assert build.shown == ["one", "two"]
