"""One account of AWS, as launching asks every cloud."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cloudgan.core import settings
from cloudgan.core.errors import CredentialsError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.providers.aws import naming
from cloudgan.providers.aws.account import Account, session_of
from cloudgan.providers.aws.buckets import Buckets
from cloudgan.providers.aws.check import findings
from cloudgan.providers.aws.clusters import Clusters, Identities, PodAgents, is_ours
from cloudgan.providers.aws.iam_roles import IamRoles
from cloudgan.providers.aws.image_parts import PARTS, ImagePart, image_things
from cloudgan.providers.aws.image_requests import ROLE as IMAGE_ROLE
from cloudgan.providers.aws.leftovers import CARD, GROUP, Leftovers
from cloudgan.providers.aws.network import places_of
from cloudgan.providers.aws.node_groups import NodeGroups
from cloudgan.providers.aws.requests import POD_AGENT, cluster_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import boto3

    from cloudgan.core.plan import Place, Plan, Step
    from cloudgan.core.thing import Finding, Thing
    from cloudgan.kubernetes.api import ClusterApi
    from cloudgan.providers.aws.kind import Kind

_DEFAULT_REGION: Final = "us-east-1"
_AT_ONCE: Final = 8
_OPERATIONS: Final = {
    "AttachRolePolicy": IamRoles.kind,
    "CreateAddon": PodAgents.kind,
    "CreateBucket": Buckets.kind,
    "CreateCluster": Clusters.kind,
    "CreateNodegroup": NodeGroups.kind,
    "CreatePodIdentityAssociation": Identities.kind,
    "CreateRole": IamRoles.kind,
    "PutBucketPolicy": Buckets.kind,
    "PutPublicAccessBlock": Buckets.kind,
    "PutRolePolicy": IamRoles.kind,
    "PutScheduledUpdateGroupAction": NodeGroups.kind,
    "UpdateNodegroupConfig": NodeGroups.kind,
}


class AwsCloud:
    """Finds, makes, lists and deletes single things.

    Args:
        session: Logged in.
        region: In which people are told of mistakes; all others are looked at too.
        say: Is told what could not be looked at.
        attempts: Of one request.
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
        self._agents, self._identities = PodAgents(self._account), Identities(self._account)
        self._roles = IamRoles(self._account)
        self._left = [Leftovers(self._account, kind) for kind in (CARD, GROUP)]

    @classmethod
    def open(cls, place: Place, say: Callable[[str], None] = lambda _: None) -> AwsCloud:
        """Opens AWS with the login that boto3 finds.

        Raises:
            CredentialsError: There is none.
        """
        session = session_of(place.profile, place.region)
        if place.profile:
            settings.use_aws_profile(place.profile)  # the run's store logs in by itself
        return cls(session, place.region, say)

    def identify(self) -> Mapping[str, str]:
        """Returns the account and who is logged in to it."""
        return self._who

    def known(self, plan: Plan) -> Mapping[str, str]:
        """Returns the account, and where in the region the nodes can be.

        Raises:
            CredentialsError: The login is of another account than was asked for.
            PlanError: The region has no network for it, or no such machine.
        """
        asked, own = plan.place.account, self._who["account"]
        if asked not in (None, naming.ACCOUNT, own):
            raise CredentialsError(
                f"AWS: this login is of account {own}, and {asked} was asked for; name another"
                " --profile"
            )
        return {naming.ACCOUNT: own} | dict(places_of(self._account, self._clusters, plan))

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Looks at login, rights, roles and, for a plan, its place and quota; makes nothing."""
        del region  # rights and roles are the same in all
        parts = {"clusters": self._clusters, "roles": self._roles}
        return tuple(findings(self._account, self._who, plan, **parts))  # type: ignore[arg-type]

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where there is something of that name."""
        return self._kinds[_OPERATIONS[step.method]].find(step)

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        self._kinds[_OPERATIONS[step.method]].create(step)

    def things(self, run: str | None = None) -> tuple[Thing, ...]:
        """Lists what carries cloudgan's labels, or those of one run, in all regions."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            regions = self._regions()
            found = [one for many in pool.map(self._listed_in, regions) for one in many]
            if run is None:
                found += image_things(self._images, regions, pool, self._say)
        if run is None:
            found += [self._buckets.look(name) for name in self._buckets.names()]
            found += [self._roles.look(role) for role in (*naming.ROLES, IMAGE_ROLE)]
        labelled = [one for one in found if one and (RUN in one.labels or SHARED in one.labels)]
        return tuple(one for one in labelled if run in (None, one.run))

    def delete(self, thing: Thing) -> None:
        """Asks for deletion; what is gone already is no error."""
        self._kinds[thing.kind].delete(thing.name)

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""
        return self._kinds[thing.kind].look(thing.name)

    def cluster(self, plan: Plan) -> ClusterApi | None:
        """Returns the API of the plan's cluster; None: there is none."""
        return self._clusters.connect(cluster_name(plan.place), self._say)

    @cached_property
    def _who(self) -> Mapping[str, str]:
        found = self._account.ask("sts", self._region, "GetCallerIdentity")
        return {"account": found["Account"], "who": found["Arn"]}

    @cached_property
    def _buckets(self) -> Buckets:
        return Buckets(self._account, self._who["account"])

    @cached_property
    def _images(self) -> tuple[ImagePart, ...]:
        return tuple(ImagePart(self._account, self._who["account"], part) for part in PARTS)

    @cached_property
    def _kinds(self) -> Mapping[str, Kind]:
        kinds: tuple[Kind, ...] = (
            self._clusters,
            self._agents,
            self._identities,
            self._pools,
            self._roles,
            self._buckets,
            *self._left,
            *self._images,
        )
        return {one.kind: one for one in kinds}

    def _regions(self) -> list[str]:
        """All that the account has switched on, this one first."""
        found = self._account.ask("ec2", self._region, "DescribeRegions")["Regions"]
        others = sorted({one["RegionName"] for one in found} - {self._region})
        return [self._region, *others]

    def _listed_in(self, region: str) -> list[Thing | None]:
        try:
            return list(self._list(region))
        except CredentialsError as error:
            if region == self._region:
                raise
            # An organisation may close regions to everybody; nothing of ours can be there then.
            self._say(f"{region} could not be looked at: {error}")
            return []

    def _list(self, region: str) -> Iterator[Thing | None]:
        names = list(self._clusters.names(region))
        for name in names:
            cluster = self._clusters.look(name)
            yield cluster
            for pool in self._pools.names(name):
                yield self._pools.look(pool)
            if not is_ours(cluster):  # what is in ours goes with it
                yield self._agents.look(f"{name}/{POD_AGENT}")
                who = f"{naming.NAMESPACE}/{naming.SERVICE_ACCOUNT}"
                yield self._identities.look(f"{name}/{who}")
        for kind in self._left:
            yield from kind.things(region, set(names))
