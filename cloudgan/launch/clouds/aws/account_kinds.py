"""Rows of what `setup` creates for an account: buckets, roles and their permissions boundary."""

from __future__ import annotations

from typing import Any, Final

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.requests import GLOBAL_REGION, Aws, Requests, asked, row, tags_of
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.clouds.rows import AbsentError, Body, Kind
from cloudgan.schema.plan import Step


def _find_bucket(aws: Aws, step: Step) -> Resource | None:
    """Returns the bucket of a step; refuses that of another account."""
    name = BUCKET.name_of(step.ref)
    try:
        body = aws.get(BUCKET, name)
    except CredentialsError as error:
        raise ConfigError(
            f"s3://{step.ref['name']} belongs to another account, or this login has no access; pass your"
            f" own bucket by --store=s3://BUCKET ({error})"
        ) from error
    return BUCKET.resource(name, body) if body else None


def _with_tags_of_bucket(aws: Aws, name: str, body: dict[str, Any]) -> Body:
    region, _, bucket = name.partition("/")
    which = {"Bucket": bucket, "ExpectedBucketOwner": aws.login["account"]}
    found = aws.if_exists("s3", region, "GetBucketTagging", **which) or {}
    return body | {"tags": tags_of(found.get("TagSet"))}


def _setting(name: str, path: str, request: Requests, member: str) -> Kind:
    """Returns the row of a setting: there is one if it is what the step asks for."""

    def accepts(_: Aws, step: Step, body: Body) -> bool:
        return bool(_parsed(body.get(member)) == _parsed(asked(step, member)))

    order = {"s3": 60, "iam": 70}[request.service]
    return row(name, order, request, path, may_be_foreign=True, accepts=accepts)


def _parsed(document: Any) -> Any:
    """Returns a policy, which some answers hold as text, for comparison."""
    return parse_json(document, "policy", LaunchError) if isinstance(document, str) else document


def _is_bounded(_: Aws, step: Step, body: Body) -> bool:
    """Refuses a role with another permissions boundary."""
    there = (body.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", "none")
    wanted = asked(step, "PermissionsBoundary")
    if there != wanted:
        raise ConfigError(
            f"IAM role {step.ref['name']} has the permissions boundary {there}, not {wanted}; delete the roles by"
            " `cloudgan setup --provider=aws --teardown`, then run `cloudgan setup --provider=aws` again"
        )
    return True


def _listed(aws: Aws, operation: str, place: str, role: str) -> list[Any]:
    """Returns what IAM lists of a role, on all pages; nothing of one that does not exist."""
    try:
        return list(aws.items("iam", GLOBAL_REGION, operation, place, RoleName=role))
    except AbsentError:
        return []


def _attached(aws: Aws, role: str) -> list[str]:
    found = _listed(aws, "ListAttachedRolePolicies", "AttachedPolicies", role)
    return [one["PolicyArn"] for one in found]


def _find_attached(aws: Aws, step: Step) -> Resource | None:
    wanted, name = asked(step, "PolicyArn"), MANAGED_POLICY.name_of(step.ref)
    return MANAGED_POLICY.resource(name, {}) if wanted in _attached(aws, step.ref["name"]) else None


def _strip_role(aws: Aws, resource: Resource) -> None:
    """Detaches and deletes a role's policies: IAM refuses to delete a role that has some."""
    role = {"RoleName": resource.name}
    for policy in _attached(aws, resource.name):
        aws.if_exists("iam", GLOBAL_REGION, "DetachRolePolicy", **role, PolicyArn=policy)
    for policy in _listed(aws, "ListRolePolicies", "PolicyNames", resource.name):
        aws.if_exists("iam", GLOBAL_REGION, "DeleteRolePolicy", **role, PolicyName=policy)


def _is_our_boundary(aws: Aws, step: Step, body: Body) -> bool:
    """Refuses a permissions boundary with another content."""
    arn = BOUNDARY.name_of(step.ref)
    which = {"PolicyArn": arn, "VersionId": body["DefaultVersionId"]}
    version = aws.if_exists("iam", GLOBAL_REGION, "GetPolicyVersion", **which)
    document = version and version["PolicyVersion"]["Document"]
    if document != _parsed(asked(step, "PolicyDocument")):
        raise ConfigError(
            f"IAM policy {arn} differs from {naming.BOUNDARY_FILE}; an administrator makes this file"
            " its default version (console: IAM, Policies), then run `cloudgan setup"
            " --provider=aws` again"
        )
    return True


_OWN_BUCKET: Final = {"Bucket": "{name}", "ExpectedBucketOwner": "{owner}"}
BUCKET = row(
    "S3 bucket",
    60,
    Requests(
        service="s3",
        get="HeadBucket",
        which=_OWN_BUCKET,
        delete="DeleteBucket",
        exists=("BucketAlreadyOwnedByYou",),
        complete=_with_tags_of_bucket,
    ),
    may_be_foreign=True,
    find=_find_bucket,
)
BUCKET_ACCESS = _setting(
    "public access block of an S3 bucket",
    BUCKET.path,
    Requests(service="s3", get="GetPublicAccessBlock", which=_OWN_BUCKET),
    "PublicAccessBlockConfiguration",
)
BUCKET_POLICY = _setting(
    "policy of an S3 bucket",
    BUCKET.path,
    Requests(service="s3", get="GetBucketPolicy", which=_OWN_BUCKET),
    "Policy",
)
ROLE = row(
    "IAM role",
    70,
    Requests(
        service="iam",
        get="GetRole",
        which={"RoleName": "{name}"},
        found="Role",
        delete="DeleteRole",
        tags="Tags",
        exists=("EntityAlreadyExists",),
    ),
    "{name}",
    created="CreateDate",
    is_free=True,
    may_be_foreign=True,
    accepts=_is_bounded,
    before_delete=_strip_role,
)
ROLE_POLICY = _setting(
    "policy of an IAM role",
    "{name}/{policy}",
    Requests(
        service="iam",
        get="GetRolePolicy",
        which={"RoleName": "{name}", "PolicyName": "{policy}"},
    ),
    "PolicyDocument",
)
MANAGED_POLICY = row(
    "AWS managed policy of an IAM role",
    70,
    Requests(service="iam"),
    "{name}/{policy}",
    may_be_foreign=True,
    find=_find_attached,
)
BOUNDARY = row(
    "IAM policy",
    75,
    Requests(
        service="iam",
        get="GetPolicy",
        which={"PolicyArn": "arn:aws:iam::{account}:policy/{name}"},
        found="Policy",
        delete="DeletePolicy",
        tags="Tags",
        exists=("EntityAlreadyExists",),
    ),
    "arn:aws:iam::{account}:policy/{name}",
    created="CreateDate",
    is_free=True,
    may_be_foreign=True,
    accepts=_is_our_boundary,
)
KINDS: Final = (BUCKET, BUCKET_ACCESS, BUCKET_POLICY, ROLE, ROLE_POLICY, MANAGED_POLICY, BOUNDARY)
