"""CodeBuild image builds and their log groups, which moto lacks.

A build ends at the first request for its state, and has pushed its image by then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moto.codebuild.models import codebuild_backends
from moto.ecr.models import ecr_backends
from moto.logs.models import logs_backends

from emulators.aws.state import ACCOUNT, Body
from emulators.aws.wire import Refusal

if TYPE_CHECKING:
    from emulators.aws.wire import Call

_MEDIA: Final = "application/vnd.docker.distribution.manifest.v2+json"
_MANIFEST: Final = {"schemaVersion": 2, "mediaType": _MEDIA, "config": {}, "layers": []}


class ImageBuilds:
    """The builds of an account, by region and id; moto keeps project, repository and log group."""

    operations: Final = {
        ("codebuild", "BatchGetBuilds"),
        ("codebuild", "StartBuild"),
        ("logs", "GetLogEvents"),
        ("logs", "ListTagsForResource"),
    }

    def __init__(self) -> None:
        self._images: dict[tuple[str, str], str] = {}

    def answer(self, call: Call) -> Body:
        found: Body = getattr(self, call.operation)(call.region, call.asked)
        return found

    def StartBuild(self, region: str, asked: Body) -> Body:  # noqa: N802
        project = asked["projectName"]
        if project not in codebuild_backends[ACCOUNT][region].codebuild_projects:
            raise Refusal("ResourceNotFoundException", f"Project cannot be found: {project}")
        variables = {one["name"]: one["value"] for one in asked["environmentVariablesOverride"]}
        build = f"{project}:{len(self._images) + 1}"
        self._images[region, build] = variables["IMAGE"]
        return {"build": {"id": build, "buildStatus": "IN_PROGRESS"}}

    def BatchGetBuilds(self, region: str, asked: Body) -> Body:  # noqa: N802
        (build,) = asked["ids"]
        repository, _, tag = self._images[region, build].partition("/")[2].partition(":")
        ecr_backends[ACCOUNT][region].put_image(repository, json.dumps(_MANIFEST), tag, _MEDIA)
        logs = {"groupName": "/cloudgan/image", "streamName": build.partition(":")[2]}
        return {"builds": [{"id": build, "buildStatus": "SUCCEEDED", "logs": logs}]}

    def GetLogEvents(self, region: str, asked: Body) -> Body:  # noqa: N802
        self._group(region, asked["logGroupName"])
        return {"events": [{"message": "Step 1/9\n", "timestamp": 1}], "nextForwardToken": "f/1"}

    def ListTagsForResource(self, region: str, asked: Body) -> Body:  # noqa: N802
        kept = logs_backends[ACCOUNT][region]
        self._group(region, asked["resourceArn"].split(":", 6)[6])
        return {"tags": kept.list_tags_for_resource(asked["resourceArn"])}

    @staticmethod
    def _group(region: str, name: str) -> None:
        if name not in logs_backends[ACCOUNT][region].groups:
            raise Refusal("ResourceNotFoundException", "The specified log group does not exist.")
