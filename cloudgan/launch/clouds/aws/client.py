"""`AwsClient`: one AWS account."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import boto3

from cloudgan.core import settings
from cloudgan.core.clouds import CLUSTER as OWN_CLUSTER
from cloudgan.core.clouds import NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.aws import account_kinds, kinds, naming
from cloudgan.launch.clouds.aws.login import ClusterToken, open_session
from cloudgan.launch.clouds.aws.preflight import findings, select_network
from cloudgan.launch.clouds.aws.requests import GLOBAL_REGION, Aws
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.resource import Finding, Listing, Resource
from cloudgan.launch.clouds.rows import DeniedError, Kind
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.schema.plan import Plan, Step, Target

_AT_ONCE: Final = 8
_POOL_TAG: Final = "eks:nodegroup-name"
_BILLED: Final = ("instance-state-name", "pending", "running", "stopping", "stopped")
_FREE: Final = ("status", "available")
_LEFT_BY_CLUSTERS: Final[tuple[tuple[Kind, str, tuple[tuple[str, ...], ...]], ...]] = (
    (kinds.INTERFACE, "cluster.k8s.amazonaws.com/name", (_FREE,)),
    (kinds.SECURITY_GROUP, "aws:eks:cluster-name", ()),
)
"""Kind, the tag that names the cluster, and further filters."""
_LEFT_BY_POOLS: Final = ((kinds.INSTANCE, _BILLED), (kinds.VOLUME, _FREE))


class AwsClient(CloudClient):
    """One account. Errors of `region` are raised; lists cover all regions."""

    transport: Aws

    def __init__(
        self,
        session: boto3.Session,
        region: str | None = None,
        say: Callable[[str], None] = lambda _: None,
        *,
        attempts: int = 8,
        poll_seconds: float = 5.0,
    ) -> None:
        self._region = region or GLOBAL_REGION
        super().__init__(
            Aws(session, self._region, attempts=attempts),
            kinds.KINDS,
            say,
            references={naming.GROUP_OF_POOL: self._group_of_pool},
            poll_seconds=poll_seconds,
        )

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> AwsClient:
        """Opens AWS with the login that boto3 finds."""
        session = open_session(target.profile, target.region)
        if target.profile:
            settings.use_aws_profile(target.profile)  # for the run's store, which has its own login
        return cls(session, target.region, say)

    def identify(self) -> Mapping[str, str]:
        """Returns account and login."""
        return self.transport.login

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns account, zone, subnets and Kubernetes version."""
        wanted, own = plan.target.account, self.transport.login["account"]
        if wanted not in (None, naming.ACCOUNT, own):
            raise CredentialsError(
                f"AWS: this login belongs to account {own}, not to {wanted}; pass another --profile"
            )
        return {naming.ACCOUNT: own} | dict(select_network(self.transport, plan))

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, permissions, roles and, for a plan, network and quota; creates nothing."""
        del region  # permissions and roles are global
        return tuple(findings(self.transport, plan))

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists the resources with cloudgan's labels, or those of one run, in some or all regions."""
        silent: list[str] = []
        places = self._regions(silent) if regions is None else sorted(regions)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            listed = pool.map(
                lambda one: self._listed_in(one, silent, is_asked=bool(regions)), places
            )
            found = [one for many in listed for one in many]
        if run is None:
            account = self.transport.login["account"]
            found += self._known(account_kinds.BUCKET, self._buckets(account), silent)
            found += self._known(account_kinds.ROLE, naming.ROLES, silent)
            kind = account_kinds.BOUNDARY
            boundary = kind.name_of({"account": account, "name": naming.BOUNDARY})
            found += self._known(kind, (boundary,), silent)
        labelled = [one for one in found if one and (RUN in one.labels or SHARED in one.labels)]
        return Listing((one for one in labelled if run in (None, one.run)), silent)

    def cluster_api(self, target: Target) -> ClusterApi | None:
        """Returns the Kubernetes API of a target's cluster; None without a ready cluster."""
        region, cluster = str(target.region), str(target.cluster)
        name = f"{region}/{cluster}"
        found = self.transport.get(kinds.CLUSTER, name)
        if found is None or kinds.CLUSTER.resource(name, found).state != "ready":
            return None
        ca = base64.b64decode(found["certificateAuthority"]["data"]).decode()
        token = ClusterToken(self.transport.session, cluster, region)
        return ClusterApi(connect_by_token(found["endpoint"], ca, token), say=self._say)

    def _group_of_pool(self, step: Step) -> str:
        """Returns the Auto Scaling group that EKS made for a node group."""
        name = kinds.POOL.name_of(step.ref)
        body = self.transport.get(kinds.POOL, name)
        group = kinds.group_name(body) if body else ""
        if not group:
            raise LaunchError(f"node group {name} has no Auto Scaling group, or is gone")
        return group

    def _regions(self, silent: list[str]) -> list[str]:
        """Returns all enabled regions, the client's own first."""
        try:
            found = self.transport.request("ec2", self._region, "DescribeRegions")["Regions"]
        except LaunchError as error:
            silent.append(f"all regions but {self._region} ({error})")
            found = []
        others = sorted({one["RegionName"] for one in found} - {self._region})
        return [self._region, *others]

    def _listed_in(
        self, region: str, silent: list[str], *, is_asked: bool
    ) -> list[Resource | None]:
        """Returns what a region lists, up to the request that it does not answer."""
        found: list[Resource | None] = []
        try:
            for one in self._list(region):
                found.append(one)  # noqa: PERF402  it is needed if the next one fails
        except CredentialsError as error:
            if region == self._region:
                raise
            # An organisation may deny regions, which then hold no resource of cloudgan.
            self._say(f"cannot list resources in {region}: {error}")
            if is_asked or not isinstance(error, DeniedError):
                silent.append(f"{region} ({error})")
        except LaunchError as error:
            silent.append(f"{region} ({error})")
        return found

    def _list(self, region: str) -> Iterator[Resource | None]:
        own, pools = dict[str, bool](), set[str]()
        for name in self._names(region, "ListClusters", "clusters"):
            cluster = f"{region}/{name}"
            found = self.get(kinds.CLUSTER, cluster)
            yield found
            for pool in self._names(region, "ListNodegroups", "nodegroups", clusterName=name):
                pools.add(f"{cluster}/{pool}")
                yield self.get(kinds.POOL, f"{cluster}/{pool}")
            own[cluster] = kinds.is_managed(found)
            if not own[cluster]:  # deleted with a managed cluster
                yield self.get(kinds.ADD_ON, f"{cluster}/{naming.POD_AGENT}")
                account = f"{NAMESPACE}/{SERVICE_ACCOUNT}"
                yield self.get(kinds.IDENTITY, f"{cluster}/{account}")
        yield from self.transport.listed(kinds.TEMPLATE, region, Filters=_filters(("tag-key", RUN)))
        yield from self._schedules(region)
        yield from self._left(region, own, pools)

    def _left(self, region: str, own: Mapping[str, bool], pools: set[str]) -> Iterator[Resource]:
        """Yields what deleted clusters and node groups of cloudgan left in a region.

        Args:
            own: The clusters that exist, and whether cloudgan created them.
            pools: The node groups that exist.
        """
        for kind, tag, filters in _LEFT_BY_CLUSTERS:
            for cluster, one in self._tagged(region, kind, tag, *filters):
                if cluster not in own:
                    yield one
        for kind, state in _LEFT_BY_POOLS:
            for cluster, one in self._tagged(region, kind, "eks:cluster-name", state):
                pool = f"{cluster}/{one.labels.get(_POOL_TAG)}"
                if own.get(cluster, True) and pool not in pools:
                    yield one

    def _tagged(
        self, region: str, kind: Kind, tag: str, *others: tuple[str, ...]
    ) -> Iterator[tuple[str, Resource]]:
        """Yields the resources of clusters with cloudgan's names, each with its cluster."""
        filters = _filters((f"tag:{tag}", OWN_CLUSTER, f"{OWN_CLUSTER}-*"), *others)
        for one in self.transport.listed(kind, region, Filters=filters):
            yield f"{region}/{one.labels[tag]}", one

    def _schedules(self, region: str) -> list[Resource | None]:
        """Returns the schedule groups of a region; a login that may not list them can delete the rest."""
        try:
            where = "scheduler", region, "ListScheduleGroups", "ScheduleGroups"
            return [
                self.get(kinds.SCHEDULES, f"{region}/{one['Name']}")
                for one in self.transport.items(*where, NamePrefix=naming.PREFIX)
            ]
        except DeniedError as error:
            if region == self._region:
                self._say(f"schedules, which are free, are not listed: {error}")
            return []

    def _buckets(self, account: str) -> Iterator[str]:
        """Yields the names of the account's buckets with cloudgan's prefix."""
        start, where = f"{naming.PREFIX}{account}-", ("s3", GLOBAL_REGION, "ListBuckets", "Buckets")
        for found in self.transport.items(*where, Prefix=start):
            yield f"{found['Name'].removeprefix(start)}/{found['Name']}"

    def _known(self, kind: Kind, names: Iterable[str], silent: list[str]) -> list[Resource | None]:
        """Returns resources by name, without those that this login may not read."""
        found: list[Resource | None] = []
        try:
            for name in names:
                try:
                    found.append(self.get(kind, name))
                except DeniedError as error:
                    self._say(f"cannot read {kind.name} {name}: {error}")
        except LaunchError as error:
            silent.append(f"{kind.name} ({error})")
        return found

    def _names(self, region: str, operation: str, place: str, **body: Any) -> list[str]:
        return list(self.transport.items("eks", region, operation, place, **body))


def _filters(*named: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns filters of EC2, each a name with its values."""
    return [{"Name": name, "Values": list(values)} for name, *values in named]
