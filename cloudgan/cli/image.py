"""`cloudgan image`: an image with cloudgan in it, built by a cloud and not on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan import __version__
from cloudgan.auditing.metadata_server import forget_unless_there
from cloudgan.cli.confirmation import confirm
from cloudgan.cli.output import show, show_json, shown_progress
from cloudgan.cli.pinned_image import open_registry
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.image_order import ImageKind, ImageOrder
from cloudgan.core.plan import CloudName  # noqa: TC001  fire reads a command's annotations
from cloudgan.core.whole_file import write_whole
from cloudgan.launching.image_building import build_image
from cloudgan.launching.image_context import image_context
from cloudgan.providers.clouds import rules
from cloudgan.providers.image_builders import image_rules, open_image_builder
from cloudgan.registries.resolving import resolve

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.launching.image_context import ImageContext

_COST = "unknown: the price list has neither minutes of builders nor what a registry keeps"


def image(
    *,
    provider: CloudName | None = None,
    region: str | None = None,
    kind: ImageKind = "gpu",
    tag: str | None = None,
    project: str | None = None,
    profile: str | None = None,
    subscription: str | None = None,
    context: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Builds deploy/Dockerfile with this very cloudgan, in a cloud, into its private registry.

    Nothing is needed on this machine, no Docker either. It ends with the `--image=` to type. The
    same content has the same tag: what is in the registry already is not built again.

    Args:
        provider: gcp (Cloud Build), aws (CodeBuild) or azure (ACR Tasks).
        region: Where the registry is; take that of your nodes.
        kind: Of accelerator: cpu, gpu or tpu.
        tag: Default: the version, the kind, and digits of the content.
        project: Of Google Cloud. Default: that of your login.
        profile: Of AWS' own files.
        subscription: Of Azure. Default: AZURE_SUBSCRIPTION_ID, or the login's only one.
        context: Write what a builder needs into this file (tar.gz) and stop: for one of your own.
        dry_run: Show what would be sent and stop; needs no login.
        yes: Do not ask.
        json: Print the result as JSON.
    """
    files = image_context(kind)
    if context is not None:
        _write(files, Path(context), kind, json=json)
        return
    where = {"account": project or subscription, "profile": profile}
    order = _order(files, kind, provider=provider, region=region, tag=tag, **where)
    if dry_run:
        _show_steps(order, files, json=json)
        return
    with shown_progress(as_json=json) as progress:
        result = _build(order, files, progress, is_named=tag is not None, yes=yes, json=json)
    show(result, as_json=json)


def _order(
    files: ImageContext,
    kind: ImageKind,
    *,
    provider: CloudName | None,
    region: str | None,
    tag: str | None,
    account: str | None,
    profile: str | None,
) -> ImageOrder:
    if provider is None:
        raise ConfigError(
            "whose builder? Give --provider=gcp, aws or azure; or --context=FILE for your own"
        )
    if region is None:
        raise ConfigError(
            "--region is where the registry is: name that of your nodes, such as"
            " --region=us-central1, or pulling costs time and money"
        )
    cloud = rules(provider)
    place = cloud.place(account, region, None, None).model_copy(update={"profile": profile})
    tag = tag or f"{__version__}-{kind}-{files.digits[:8]}"
    return ImageOrder(place, cloud.store(place), kind, tag, files.digits)


def _build(
    order: ImageOrder,
    files: ImageContext,
    progress: Progress,
    *,
    is_named: bool,
    yes: bool,
    json: bool,
) -> dict[str, Any]:
    forget_unless_there()
    builder = open_image_builder(order.place)
    place = order.place.model_copy(update={"account": builder.account})
    order = order._replace(place=place, store=rules(place.provider).store(place))
    known = image_rules(place.provider)
    name = known.image_name(order)
    there = None if is_named else _there(name)
    if there is not None:
        return _result(name, there, "there already")
    if not json:
        _show_steps(order, files, json=False)
    confirm(f"Build {name}? What that costs is {_COST}.", yes=yes)
    archive = files.zip() if known.ARCHIVE == "zip" else files.tar_gz()
    digest = build_image(builder, order, archive, progress.say, progress.say)
    return _result(name, digest, "built")


def _there(name: str) -> str | None:
    """The digest of an image that the registry has; None where it has none, or nobody can say."""
    try:
        return resolve(name, open_registry).image.rpartition("@")[2]
    except CloudganError:
        return None


def _result(name: str, digest: str, state: str) -> dict[str, Any]:
    return {
        "image": name,
        "digest": digest,
        "state": state,
        "use": f"--image={name}@{digest}",
    }


def _write(files: ImageContext, path: Path, kind: ImageKind, *, json: bool) -> None:
    content = files.tar_gz()
    write_whole(path, content)
    build = f"docker build --file deploy/Dockerfile --build-arg KIND={kind} --tag NAME - < {path}"
    show({"context": str(path), "bytes": len(content), "build": build}, as_json=json)


def _show_steps(order: ImageOrder, files: ImageContext, *, json: bool) -> None:
    known = image_rules(order.place.provider)
    steps = known.steps(order)
    size = len(files.tar_gz())
    if json:
        told = [step.model_dump(mode="json") for step in steps]
        show_json({"image": known.image_name(order), "context_bytes": size, "steps": told})
        return
    print(f"image      {known.image_name(order)}")
    print(f"context    {len(files.files)} files, {size / 2**20:.1f} MiB")
    print(f"costs      {_COST}")
    print("makes")
    for step in steps:
        print(f"  {step.ensure:<34} {step.operation}")
