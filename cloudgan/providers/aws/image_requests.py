"""What building an image asks of AWS: ECR and CodeBuild, as values.

As in all requests to AWS, `method` is the operation, `path` service and region, `body` its arguments.
https://docs.aws.amazon.com/codebuild/latest/APIReference/API_CreateProject.html (read 2026-11-21);
the tests hold the bodies against botocore's models.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.plan import Step

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cloudgan.core.image_order import ImageOrder

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
# One command after the other: what fails ends the build, before anything is pushed.
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


def image_name(order: ImageOrder) -> str:
    """Returns what is built, as `--image` takes it."""
    place = order.place
    host = f"{place.account}.dkr.ecr.{place.region}.amazonaws.com"
    return f"{host}/{REPOSITORY}:{order.tag}"


def _bucket(order: ImageOrder) -> str:
    return order.store.removeprefix("s3://").partition("/")[0]


def _step(
    order: ImageOrder, service: str, operation: str, ensure: str, body: dict[str, JsonValue]
) -> Step:
    path = f"{service}/{order.place.region}"
    return Step(ensure=ensure, method=operation, path=path, at="cloud", body=body)


def repository_step(order: ImageOrder) -> Step:
    """Returns what makes the private registry."""
    body: dict[str, JsonValue] = {
        "repositoryName": REPOSITORY,
        "tags": [{"Key": SHARED, "Value": "registry"}],
    }
    return _step(order, "ecr", "CreateRepository", f"registry {REPOSITORY}", body)


def builder_steps(order: ImageOrder) -> tuple[Step, ...]:
    """Returns what the builder is: its log, whom it acts as, what that one may, and what it does."""
    account, region = order.place.account, order.place.region
    rights = _rights(f"arn:aws:s3:::{_bucket(order)}", account or "", region or "")
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
            {"RoleName": ROLE, "PolicyName": ROLE, "PolicyDocument": rights},
        ),
        _project_step(order),
    )


def _project_step(order: ImageOrder) -> Step:
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
            "privilegedMode": True,  # docker runs in it
        },
        "serviceRole": f"arn:aws:iam::{order.place.account}:role/{ROLE}",
        "timeoutInMinutes": _MINUTES,
        "tags": [{"key": SHARED, "value": "builder"}],
        "logsConfig": {"cloudWatchLogs": {"status": "ENABLED", "groupName": LOG_GROUP}},
    }
    return _step(order, "codebuild", "CreateProject", f"builder {PROJECT}", body)


def build_step(order: ImageOrder) -> Step:
    """Returns what starts the build, of the context in the store."""
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


def steps(order: ImageOrder) -> tuple[Step, ...]:
    """Returns everything that is sent, in its order."""
    context = Step(
        ensure="the context of the build",
        method="PUT",
        path=f"{order.store}/{order.object_name('zip')}",
        at="store",
    )
    return (repository_step(order), *builder_steps(order), context, build_step(order))


def _trust() -> str:
    return _document(
        {
            "Effect": "Allow",
            "Principal": {"Service": "codebuild.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    )


def _rights(bucket: str, account: str, region: str) -> str:
    """Reads the context, writes its own log, pushes to its own repository."""
    push = ("BatchCheckLayerAvailability", "CompleteLayerUpload", "InitiateLayerUpload", "PutImage")
    log = f"arn:aws:logs:{region}:{account}:log-group:{LOG_GROUP}:*"
    return _document(
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


def _document(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
