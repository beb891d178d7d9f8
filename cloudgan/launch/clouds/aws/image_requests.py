"""Requests of an image build to ECR and CodeBuild. Pure, needs no SDK.

`method` is the operation, `path` service and region, `body` the arguments.
https://docs.aws.amazon.com/codebuild/latest/APIReference/API_CreateProject.html (read 2026-11-21);
the tests check the bodies against botocore's models.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws.naming import IMAGE_LOG, IMAGE_ROLE, REPOSITORY, role_arn
from cloudgan.launch.clouds.image_builders import CHECK_CONTEXT
from cloudgan.schema.plan import Step

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cloudgan.schema.image_order import ImageBuildRequest

ARCHIVE: Final = "zip"
PROJECT: Final = "cloudgan-image"
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
                CHECK_CONTEXT,
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
    """Returns the requests for the builder: log group and CodeBuild project; `setup` creates its role."""
    return (
        _step(
            order,
            "logs",
            "CreateLogGroup",
            f"log group {IMAGE_LOG}",
            {"logGroupName": IMAGE_LOG, "tags": {SHARED: "logs"}},
        ),
        _step(
            order,
            "logs",
            "PutRetentionPolicy",
            f"logs are kept {_LOG_DAYS} days",
            {"logGroupName": IMAGE_LOG, "retentionInDays": _LOG_DAYS},
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
        "serviceRole": role_arn(order.target.account or "", IMAGE_ROLE),
        "timeoutInMinutes": _MINUTES,
        "tags": [{"key": SHARED, "value": "builder"}],
        "logsConfig": {"cloudWatchLogs": {"status": "ENABLED", "groupName": IMAGE_LOG}},
    }
    return _step(order, "codebuild", "CreateProject", f"builder {PROJECT}", body)


def build_step(order: ImageBuildRequest) -> Step:
    """Returns the request that builds the context in the store."""
    name = image_name(order)
    variables: list[JsonValue] = [
        {"name": "IMAGE", "value": name},
        {"name": "KIND", "value": order.kind},
        {"name": "CONTEXT_SHA256", "value": order.context_hash},
    ]
    body: dict[str, JsonValue] = {
        "projectName": PROJECT,
        "sourceLocationOverride": f"{_bucket(order)}/{order.object_name('zip')}",
        "buildspecOverride": json.dumps(_BUILDSPEC, indent=2),  # of a project made earlier, too
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
