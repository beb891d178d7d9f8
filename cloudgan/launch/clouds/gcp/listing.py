"""Lists cloudgan's resources in Google Cloud; what does not answer is named, never taken as empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from cloudgan.core.clouds import region_of
from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.errors import DisabledApiError
from cloudgan.launch.clouds.gcp.kinds import (
    ACCOUNT,
    BUCKET,
    CLUSTER,
    DISK,
    INSTANCE,
    POOL,
    QUEUED,
    TPU_VM,
    group_url,
    last,
)
from cloudgan.launch.clouds.resource import Listing, Resource
from cloudgan.launch.clouds.rows import DeniedError, Kind, ask

_PREFIX: Final = "cloudgan-"
_PLACE: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+(-[a-z])?")
_PARTIAL: Final = ("UNREACHABLE", "PARTIAL_SUCCESS")
"""Codes of warnings in place of resources; an empty zone has NO_RESULTS_ON_PAGE."""
_ENGINE: Final = "Kubernetes Engine"
_TABLES: Final = ((INSTANCE, "instances"), (DISK, "disks"))


def list_resources(
    api: GoogleApi,
    run: str | None,
    regions: Collection[str] | None,
    say: Callable[[str], None],
) -> Listing:
    """Lists the resources of cloudgan, or of a run, in all regions: see `CloudClient`."""
    pools = ask(_ENGINE, lambda: _in_engine(api, run))
    held = {one.run for one in pools if one.run}
    machines = ask("Compute Engine", lambda: _orphaned_machines(api, run, held, say))
    others = [ask("Cloud TPU", lambda: list_tpus(api, run, say))]
    if run is None:
        others += (
            ask("Cloud Storage", lambda: _buckets(api)),
            ask("IAM", lambda: _accounts(api)),
        )
    silent = [one for part in (pools, machines, *others) for one in part.silent]
    # The pool of a machine may be in a zone that was not listed.
    away = {one.partition(" (")[0] for one in pools.silent}
    orphans = [one for one in machines if not away & {one.region, _ENGINE}]
    return Listing(
        (*pools, *orphans, *(one for part in others for one in part)),
        (one for one in silent if regions is None or _is_near(one, regions)),
    )


def _is_near(silent: str, regions: Collection[str]) -> bool:
    """Whether what does not answer is in one of these regions, or in no region."""
    place = silent.partition(" (")[0]
    return region_of("gcp", place) in regions or not _PLACE.fullmatch(place)


def list_clusters(api: GoogleApi) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns all clusters of the project with their pools, and the zones that did not answer.

    `missingZones`: "the list of clusters returned may be missing those zones" (discovery document of
    container.v1, revision 20261027).
    """
    found = api.send("GET", names.clusters(api.project, "-"))
    return list(found.get("clusters", ())), list(found.get("missingZones", ()))


def _in_engine(api: GoogleApi, run: str | None) -> Listing:
    """Lists clusters and pools, pools with their current node count."""
    there, silent = list_clusters(api)
    found = []
    for one in there:
        ref = {"project": api.project, "location": one["location"], "cluster": one["name"]}
        cluster = CLUSTER.resource(CLUSTER.name_of(ref), one)
        if cluster.shared and run is None:
            found.append(cluster)
        for body in one.get("nodePools", ()):
            pool = POOL.resource(POOL.name_of(ref | {"name": body["name"]}), body)
            if pool.run and run in (None, pool.run):
                found.append(_counted(api, pool, body))
    return Listing(found, silent)


def _counted(api: GoogleApi, pool: Resource, body: dict[str, Any]) -> Resource:
    groups = body.get("instanceGroupUrls", ())
    if not groups:
        return pool
    try:
        sizes = [(api.find(group_url(one)) or {}).get("targetSize", 0) for one in groups]
    except LaunchError:
        return pool  # with the number of nodes that was requested
    return replace(pool, nodes=sum(sizes))


def _orphaned_machines(
    api: GoogleApi, run: str | None, held: Collection[str | None], say: Callable[[str], None]
) -> Listing:
    """Lists VMs without a node pool, and disks that no VM uses. Runs in `held` have pools."""
    silent: list[str] = []
    try:
        found = [
            (kind.resource(str(body["selfLink"]).partition("/compute/v1/")[2], body), body)
            for kind, table in _TABLES
            for body in _labelled(api, table, run, silent)
        ]
    except DeniedError as error:  # must not hide the pools
        say(f"cannot list machines and disks without a pool: {error}")
        return Listing()
    own = (one for one, body in found if one.run not in held and not body.get("users"))
    return Listing(own, silent)


def _labelled(
    api: GoogleApi, table: str, run: str | None, silent: list[str]
) -> Iterator[dict[str, Any]]:
    """Yields what zones list; adds those that do not answer to `silent`.

    `unreachables` and `warning`: discovery document of compute.v1, revision 20261106.
    """
    url = f"{names.COMPUTE}/projects/{api.project}/aggregated/{table}"
    wanted = f"labels.{RUN}={run}" if run else f"labels.{RUN}:*"
    for page in api.pages(url, filter=wanted):
        silent += map(last, page.get("unreachables", ()))
        for zone, listed in {f"a zone of {table}": page, **page.get("items", {})}.items():
            if (listed.get("warning") or {}).get("code") in _PARTIAL:
                silent.append(last(zone) or zone)
            yield from listed.get(table, ())


def _buckets(api: GoogleApi) -> Listing:
    query = {"project": api.project, "prefix": _PREFIX, "returnPartialSuccess": "true"}
    pages = list(api.pages(f"{names.STORAGE}/b", **query))
    found = [BUCKET.resource(one["name"], one) for page in pages for one in page.get("items", ())]
    silent = [last(one) for page in pages for one in page.get("unreachable", ())]
    return Listing((one for one in found if one.shared), silent)


def _accounts(api: GoogleApi) -> Listing:
    ours = {names.account_email(name, api.project) for name in names.ACCOUNTS}
    pages = api.pages(f"{names.IAM}/projects/{api.project}/serviceAccounts", pageSize="100")
    found = [one for page in pages for one in page.get("accounts", ()) if one["email"] in ours]
    return Listing(ACCOUNT.resource(one["email"], one) for one in found)


def list_tpus(api: GoogleApi, run: str | None, say: Callable[[str], None]) -> Listing:
    """Lists queued resources in all zones, and VMs without one.

    A queued resource has no labels of its own: it gets those of its node. A missing permission or API
    yields none.
    """
    silent: list[str] = []

    def listed(kind: Kind, collection: str) -> Iterator[Resource]:
        for page in api.pages(f"{names.TPU}/projects/{api.project}/locations/-/{collection}"):
            silent.extend(map(last, page.get("unreachable", ())))
            for body in page.get(collection, ()):
                yield kind.resource(str(body["name"]), body)

    try:
        queue = {one.name: one for one in listed(QUEUED, "queuedResources")}
        alone = []
        for node in listed(TPU_VM, "nodes"):
            parent = queue.get(node.parent)
            if parent is None:
                alone.append(node)
            elif not parent.labels:
                queue[parent.name] = replace(parent, labels=node.labels)
    except DisabledApiError:
        return Listing()
    except DeniedError as error:
        say(f"cannot list TPUs: {error}")
        return Listing()
    found = (one for one in (*queue.values(), *alone) if one.run and run in (None, one.run))
    return Listing(found, silent)
