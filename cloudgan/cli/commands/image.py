"""`cloudgan image`: builds a container image with cloudgan in a cloud's build service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.image_builds import find_image, image_request, open_build
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_json, print_result, progress_bars
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clouds import CloudName
from cloudgan.core.local_path import local_path
from cloudgan.launch.clouds.image_builders import image_planner
from cloudgan.launch.ops.image_build import ImageContext, image_context
from cloudgan.schema.image_order import ImageBuildRequest, ImageKind

if TYPE_CHECKING:
    from pathlib import Path

_COST = "unknown: the price catalog has neither build minutes nor registry storage"


def image(
    *,
    provider: CloudName | None = None,
    region: str | None = None,
    kind: ImageKind = "gpu",
    tag: str | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    output: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Builds deploy/Dockerfile with this version of cloudgan into a cloud's private registry.

    Needs no Docker on this machine. Prints the --image flag to use. Equal content has an equal tag;
    an existing image is not built again.

    Args:
        provider: gcp (Cloud Build), aws (CodeBuild) or azure (ACR Tasks).
        region: Region of the registry; use that of your nodes.
        kind: Kind of accelerator: cpu, gpu or tpu.
        tag: Tag of the image. Default: version, kind and a hash of the content.
        project: Google Cloud project. Default: of your login.
        profile: AWS profile.
        subscription: Azure subscription. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        output: Write the build context into this file (tar.gz) and stop, for another builder.
        dry_run: Show the requests and stop; needs no login.
        yes: Do not ask for confirmation.
        json: Print the result as JSON.
    """
    files = image_context(kind)
    if output is not None:
        _write_context(files, local_path(output, source="--output"), kind, json=json)
        return
    request = image_request(
        files,
        kind,
        provider=provider,
        region=region,
        tag=tag,
        account=project or subscription,
        profile=profile,
    )
    if dry_run:
        _print_steps(request, files, json=json)
        return
    with progress_bars(as_json=json) as progress:
        build = open_build(request, files)
        digest = find_image(build.name) if tag is None else None
        state = "exists" if digest else "built"
        if digest is None:
            if not json:
                _print_steps(build.request, files, json=False)
            confirm(f"Build {build.name}? Cost: {_COST}.", yes=yes)
            digest = build.run(progress)
    result = {
        "image": build.name,
        "digest": digest,
        "state": state,
        "use": f"--image={build.name}@{digest}",
    }
    print_result(result, as_json=json)


def _write_context(files: ImageContext, path: Path, kind: ImageKind, *, json: bool) -> None:
    content = files.tar_gz()
    write_atomic(path, content)
    build = f"docker build --file deploy/Dockerfile --build-arg KIND={kind} --tag NAME - < {path}"
    print_result({"context": str(path), "bytes": len(content), "build": build}, as_json=json)


def _print_steps(request: ImageBuildRequest, files: ImageContext, *, json: bool) -> None:
    planner = image_planner(request.target.provider)
    steps = planner.steps(request)
    size = len(files.tar_gz())
    if json:
        objects = [step.model_dump(mode="json") for step in steps]
        print_json({"image": planner.image_name(request), "context_bytes": size, "steps": objects})
        return
    print(f"image      {planner.image_name(request)}")
    print(f"context    {len(files.files)} files, {size / 2**20:.1f} MiB")
    print(f"cost       {_COST}")
    print("requests")
    for step in steps:
        print(f"  {step.ensure:<34} {step.operation}")
