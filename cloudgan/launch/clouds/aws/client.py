"""`AwsClient`: one AWS account."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.account import Account
from cloudgan.launch.clouds.aws.buckets import Buckets
from cloudgan.launch.clouds.aws.clusters import AddOns, Clusters, PodIdentities, is_managed
from cloudgan.launch.clouds.aws.iam_roles import Boundaries, IamRoles
from cloudgan.launch.clouds.aws.leftover_nodes import LeftoverInstances, LeftoverVolumes
from cloudgan.launch.clouds.aws.login import open_session
from cloudgan.launch.clouds.aws.network import (
    INTERFACE,
    SECURITY_GROUP,
    OrphanedNetwork,
    select_network,
)
from cloudgan.launch.clouds.aws.node_groups import NodeGroups
from cloudgan.launch.clouds.aws.planner import POD_AGENT, cluster_name
from cloudgan.launch.clouds.aws.preflight import findings
from cloudgan.launch.clouds.aws.reservations import LaunchTemplates
from cloudgan.launch.clouds.aws.run_end import RunEnds
from cloudgan.schema.resource import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import boto3

    from cloudgan.launch.clouds.aws.resource_handler import ResourceHandler
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.schema.plan import Plan, Step, Target
    from cloudgan.schema.resource import Finding, Resource

_DEFAULT_REGION: Final = "us-east-1"
_AT_ONCE: Final = 8
_OPERATIONS: Final = {
    "AttachRolePolicy": IamRoles.kind,
    "CreateAddon": AddOns.kind,
    "CreateBucket": Buckets.kind,
    "CreateCluster": Clusters.kind,
    "CreateLaunchTemplate": LaunchTemplates.kind,
    "CreateNodegroup": NodeGroups.kind,
    "CreatePodIdentityAssociation": PodIdentities.kind,
    "CreatePolicy": Boundaries.kind,
    "CreateRole": IamRoles.kind,
    "CreateSchedule": RunEnds.kind,
    "CreateScheduleGroup": RunEnds.kind,
    "PutBucketPolicy": Buckets.kind,
    "PutPublicAccessBlock": Buckets.kind,
    "PutRolePolicy": IamRoles.kind,
    "PutScheduledUpdateGroupAction": NodeGroups.kind,
    "UpdateNodegroupConfig": NodeGroups.kind,
}


class AwsClient:
    """One account; implements `CloudClient`.

    Args:
        session: With a login.
        region: Region whose errors are raised; lists cover all regions.
        say: Receives warnings.
        attempts: Attempts of one request.
    """

    def __init__(
        self,
        session: boto3.Session,
        region: str | None = None,
        say: Callable[[str], None] = lambda _: None,
        *,
        attempts: int = 8,
    ) -> None:
        self._account = Account(session, attempts=attempts)
        self._region, self._say = region or _DEFAULT_REGION, say
        self._clusters, self._pools = Clusters(self._account), NodeGroups(self._account)
        self._templates = LaunchTemplates(self._account)
        self._ends = RunEnds(self._account)
        self._add_ons = AddOns(self._account, self._clusters)
        self._identities = PodIdentities(self._account)
        self._roles, self._boundaries = IamRoles(self._account), Boundaries(self._account)
        kinds = (INTERFACE, SECURITY_GROUP)
        self._orphans = [OrphanedNetwork(self._account, kind) for kind in kinds]
        self._leftovers = (LeftoverInstances(self._account), LeftoverVolumes(self._account))

    @classmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> AwsClient:
        """Opens AWS with the login that boto3 finds.

        Raises:
            CredentialsError: There is none.
        """
        session = open_session(target.profile, target.region)
        if target.profile:
            settings.use_aws_profile(target.profile)  # for the run's store, which has its own login
        return cls(session, target.region, say)

    def identify(self) -> Mapping[str, str]:
        """Returns account and login."""
        return self._login

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns account, zone, subnets and Kubernetes version.

        Raises:
            CredentialsError: The login belongs to another account than the plan.
            PlanError: The region has no suitable subnets, or no such instances.
        """
        wanted, own = plan.target.account, self._login["account"]
        if wanted not in (None, naming.ACCOUNT, own):
            raise CredentialsError(
                f"AWS: this login belongs to account {own}, not to {wanted}; pass another --profile"
            )
        return {naming.ACCOUNT: own} | dict(select_network(self._account, self._clusters, plan))

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, permissions, roles and, for a plan, network and quota; creates nothing."""
        del region  # permissions and roles are global
        return tuple(
            findings(
                self._account,
                self._login,
                plan,
                clusters=self._clusters,
                add_ons=self._add_ons,
                roles=self._roles,
            )
        )

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step, including unmanaged ones."""
        return self._handlers[_OPERATIONS[step.method]].find(step)

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        self._handlers[_OPERATIONS[step.method]].create(step)

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
            found += self._refreshed(self._buckets, self._buckets.names(), silent)
            found += self._refreshed(self._roles, naming.ROLES, silent)
            boundary = naming.policy_arn(self._login["account"], naming.BOUNDARY)
            found += self._refreshed(self._boundaries, (boundary,), silent)
        labelled = [one for one in found if one and (RUN in one.labels or SHARED in one.labels)]
        return Listing((one for one in labelled if run in (None, one.run)), silent)

    def delete(self, resource: Resource) -> None:
        """Requests deletion; an absent resource is no error."""
        self._handlers[resource.kind].delete(resource.name)

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""
        return self._handlers[resource.kind].refresh(resource.name)

    def cluster_api(self, plan: Plan) -> ClusterApi | None:
        """Returns the Kubernetes API of the plan's cluster; None without a ready cluster."""
        return self._clusters.connect(cluster_name(plan.target), self._say)

    def job_backend(self, plan: Plan) -> None:
        """Returns None: every plan runs in a cluster."""

    @cached_property
    def _login(self) -> Mapping[str, str]:
        found = self._account.request("sts", self._region, "GetCallerIdentity")
        return {"account": found["Account"], "who": found["Arn"]}

    @cached_property
    def _buckets(self) -> Buckets:
        return Buckets(self._account, self._login["account"])

    @cached_property
    def _handlers(self) -> Mapping[str, ResourceHandler]:
        kinds: tuple[ResourceHandler, ...] = (
            self._clusters,
            self._add_ons,
            self._identities,
            self._pools,
            self._templates,
            self._ends,
            self._roles,
            self._boundaries,
            self._buckets,
            *self._orphans,
            *self._leftovers,
        )
        return {one.kind: one for one in kinds}

    def _regions(self, silent: list[str]) -> list[str]:
        """Returns all enabled regions, the client's own first."""
        try:
            found = self._account.request("ec2", self._region, "DescribeRegions")["Regions"]
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
            if is_asked:
                silent.append(f"{region} ({error})")
        except LaunchError as error:
            silent.append(f"{region} ({error})")
        return found

    def _refreshed(
        self, handler: ResourceHandler, names: Iterable[str], silent: list[str]
    ) -> list[Resource | None]:
        """Returns resources by name, without those that this login may not read."""
        found: list[Resource | None] = []
        try:
            for name in names:
                try:
                    found.append(handler.refresh(name))
                except (ConfigError, CredentialsError) as error:
                    self._say(f"cannot read {handler.kind} {name}: {error}")
        except LaunchError as error:
            silent.append(f"{handler.kind} ({error})")
        return found

    def _schedules(self, region: str) -> list[Resource | None]:
        """Returns the schedule groups of a region; a login that may not list them can delete the rest."""
        try:
            return list(self._ends.list_resources(region))
        except CredentialsError as error:
            if region == self._region:
                self._say(f"schedules, which are free, are not listed: {error}")
            return []

    def _list(self, region: str) -> Iterator[Resource | None]:
        names, pools = list(self._clusters.names(region)), set[str]()
        for name in names:
            cluster = self._clusters.refresh(name)
            yield cluster
            for pool in self._pools.names(name):
                pools.add(pool)
                yield self._pools.refresh(pool)
            if not is_managed(cluster):  # deleted with a managed cluster
                yield self._add_ons.refresh(f"{name}/{POD_AGENT}")
                account = f"{naming.NAMESPACE}/{naming.SERVICE_ACCOUNT}"
                yield self._identities.refresh(f"{name}/{account}")
        yield from self._templates.list_resources(region, RUN)
        yield from self._schedules(region)
        for handler in self._orphans:
            yield from handler.list_resources(region, set(names))
        for leftover in self._leftovers:
            yield from leftover.list_resources(region, pools)
