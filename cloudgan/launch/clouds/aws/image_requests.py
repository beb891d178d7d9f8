"""Requests of an image build to ECR and CodeBuild. Pure, needs no SDK.

`method` is the operation, `path` service and region, `body` the arguments.
https://docs.aws.amazon.com/codebuild/latest/APIReference/API_CreateProject.html (read 2026-11-21);
the tests check the bodies against botocore's models.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws.iam_roles import policy_document
from cloudgan.schema.plan import Step

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cloudgan.schema.image_order import ImageBuildRequest

ARCHIVE: Final = "zip"
REPOSITORY: Final = "cloudgan"
PROJECT: Final = "cloudgan-image"
ROLE: Final = "cloudgan-image"
LOG_GROUP: Final = "/cloudgan/image"
_LOG_DAYS: Final = 7
_MINUTES: Final = 60
_BUILDER: Final = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
_COMPUTE: Final = "BUILD_GENERAL1_LARGE"
_LOGIN: Final = 'docker login --username AWS --password-stdin "${IMAGE%%/*}"'
# A failing command ends the build before the push.
_BUILDSPEC: Final = {
    "version": 0.2,
    "phases": {
        "build": {
            "commands": [
                "set -eo pipefail",
                f"aws ecr get-login-password | {_LOGIN}",
                'docker build --file deploy/Dockerfile --build-arg "KIND=$KIND" --tag "$IMAGE" .',
                'docker push "$IMAGE"',
            ]
        }
    },
    "env": {"shell": "bash"},
}


def image_name(order: ImageBuildRequest) -> str:
    """Returns the image reference for `--image`, without digest."""
    target = order.target
    host = f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"
    return f"{host}/{REPOSITORY}:{order.tag}"


def _bucket(order: ImageBuildRequest) -> str:
    return order.store.removeprefix("s3://").partition("/")[0]


def _step(
    order: ImageBuildRequest, service: str, operation: str, ensure: str, body: dict[str, JsonValue]
) -> Step:
    path = f"{service}/{order.target.region}"
    return Step(ensure=ensure, method=operation, path=path, at="cloud", body=body)


def repository_step(order: ImageBuildRequest) -> Step:
    """Returns the request that creates the private repository."""
    body: dict[str, JsonValue] = {
        "repositoryName": REPOSITORY,
        "tags": [{"Key": SHARED, "Value": "registry"}],
    }
    return _step(order, "ecr", "CreateRepository", f"registry {REPOSITORY}", body)


def builder_steps(order: ImageBuildRequest) -> tuple[Step, ...]:
    """Returns the requests for the builder: log group, role, policy and CodeBuild project."""
    account, region = order.target.account, order.target.region
    policy = _builder_policy(f"arn:aws:s3:::{_bucket(order)}", account or "", region or "")
    role_tags: list[JsonValue] = [{"Key": SHARED, "Value": "role"}]
    return (
        _step(
            order,
            "logs",
            "CreateLogGroup",
            f"log group {LOG_GROUP}",
            {"logGroupName": LOG_GROUP, "tags": {SHARED: "logs"}},
        ),
        _step(
            order,
            "logs",
            "PutRetentionPolicy",
            f"logs are kept {_LOG_DAYS} days",
            {"logGroupName": LOG_GROUP, "retentionInDays": _LOG_DAYS},
        ),
        _step(
            order,
            "iam",
            "CreateRole",
            f"IAM role {ROLE}",
            {"RoleName": ROLE, "AssumeRolePolicyDocument": _trust(), "Tags": role_tags},
        ),
        _step(
            order,
            "iam",
            "PutRolePolicy",
            f"policy of {ROLE}",
            {"RoleName": ROLE, "PolicyName": ROLE, "PolicyDocument": policy},
        ),
        _project_step(order),
    )


def _project_step(order: ImageBuildRequest) -> Step:
    body: dict[str, JsonValue] = {
        "name": PROJECT,
        "description": "builds cloudgan's image",
        "source": {
            "type": "S3",
            "location": f"{_bucket(order)}/{order.object_name('zip')}",
            "buildspec": json.dumps(_BUILDSPEC, indent=2),
        },
        "artifacts": {"type": "NO_ARTIFACTS"},
        "environment": {
            "type": "LINUX_CONTAINER",
            "image": _BUILDER,
            "computeType": _COMPUTE,
            "privilegedMode": True,  # required by docker
        },
        "serviceRole": f"arn:aws:iam::{order.target.account}:role/{ROLE}",
        "timeoutInMinutes": _MINUTES,
        "tags": [{"key": SHARED, "value": "builder"}],
        "logsConfig": {"cloudWatchLogs": {"status": "ENABLED", "groupName": LOG_GROUP}},
    }
    return _step(order, "codebuild", "CreateProject", f"builder {PROJECT}", body)


def build_step(order: ImageBuildRequest) -> Step:
    """Returns the request that builds the context in the store."""
    name = image_name(order)
    variables: list[JsonValue] = [
        {"name": "IMAGE", "value": name},
        {"name": "KIND", "value": order.kind},
    ]
    body: dict[str, JsonValue] = {
        "projectName": PROJECT,
        "sourceLocationOverride": f"{_bucket(order)}/{order.object_name('zip')}",
        "environmentVariablesOverride": variables,
    }
    return _step(order, "codebuild", "StartBuild", f"image {name}", body)


def steps(order: ImageBuildRequest) -> tuple[Step, ...]:
    """Returns all requests in order."""
    context = Step(
        ensure="build context",
        method="PUT",
        path=f"{order.store}/{order.object_name('zip')}",
        at="store",
    )
    return (repository_step(order), *builder_steps(order), context, build_step(order))


def _trust() -> str:
    return policy_document(
        {
            "Effect": "Allow",
            "Principal": {"Service": "codebuild.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    )


def _builder_policy(bucket: str, account: str, region: str) -> str:
    """Returns the builder's policy: read the context, write its log, push to its repository."""
    push = ("BatchCheckLayerAvailability", "CompleteLayerUpload", "InitiateLayerUpload", "PutImage")
    log = f"arn:aws:logs:{region}:{account}:log-group:{LOG_GROUP}:*"
    return policy_document(
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{bucket}/images/*"},
        {"Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": bucket},
        {
            "Effect": "Allow",
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Resource": log,
        },
        {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": [f"ecr:{one}" for one in (*push, "UploadLayerPart")],
            "Resource": f"arn:aws:ecr:{region}:{account}:repository/{REPOSITORY}",
        },
    )
