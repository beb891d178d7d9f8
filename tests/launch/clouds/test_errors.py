"""Errors of each cloud: capacity, quota, failed pools, rights. The class says whether another zone is tried."""

import re

import pytest

from cloudgan.core.errors import CapacityError, CredentialsError, LaunchError, StockOutError
from cloudgan.launch.clouds.rows import AbsentError
from emulators.azure.faults import Refusal as AzureRefusal
from emulators.gcp.kubernetes_engine import STOCK_OUT
from emulators.gcp.refusal import Refusal
from launch.clouds.lab import rows
from launch.clouds.test_lifecycle import CLUSTER, POOL


def aws_says(code, message, of="On-Demand Instances"):
    """What a node group reports whose instances do not start."""
    said = f"Could not launch {of}. {code} - {message} Launching EC2 instance failed."

    def sell_out(lab):
        lab.aws.state.sold_out["g4dn.xlarge"] = said

    return sell_out, f"failed: {re.escape(said)}"


# The texts of terraform-aws-modules/terraform-aws-eks#2565 and aws/karpenter-provider-aws#7998, and EC2's.
NOT_STARTED = (
    (StockOutError, "InsufficientInstanceCapacity", "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you requested (us-east-1a)."),
    (CapacityError, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 0 allows."),
    (CapacityError, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded.", "Spot Instances"),
    (LaunchError, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."),
    (LaunchError, "PendingVerification", "Your request for accessing resources in this region is being validated, and you will not be able to launch additional resources in this region until it is complete."),
    (LaunchError, "UnauthorizedOperation", "You are not authorized to perform this operation."),
    (LaunchError, "InvalidParameterValue", "The architecture 'arm64' of the type does not match the AMI."),
)  # fmt: skip
ALLOCATION = (
    'Provisioning of resource(s) for Agent Pool failed. Error: Code="OverconstrainedAllocation'
    'Request" Message="Allocation failed. VM(s) with the following constraints cannot be allocated"'
)
AZURE_QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardNCASv3_T4Family"
    " Cores quota."
)
STOCK = (
    "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions:"
    " Standard_NC4as_T4_v3' is currently not available in location 'eastus'."
)
GOOGLE_QUOTA = (
    'Insufficient regional quota to satisfy request: resource "NVIDIA_L4_GPUS": request requires'
    " '2.0' and is short '1.0'."
)


def azure_fails(path, code, message, *, in_resource=True):
    return lambda lab: lab.azure.faults.fail(path, code, message, in_resource=in_resource)


def google_has_no_stock(lab):
    lab.google.engine.stock_out, lab.google.engine.operation_ticks = True, 8


def google_fails(what):
    def fail(lab):
        if what == "pool":
            lab.make(name="other")
        lab.google.engine.failure = "an internal error has occurred"

    return fail


FAILED = [
    *(("aws", one[1], aws_says(*one[1:])[0], one[0], aws_says(*one[1:])[1]) for one in NOT_STARTED),
    *(
        ("azure", f"{code} in {place}", azure_fails(POOL, code, message, in_resource=place == "pool"),
         kind, f"{re.escape(message)}.*cloudgan down gan")
        for place in ("pool", "operation")
        for code, message, kind in (
            ("AllocationFailed", "no capacity", StockOutError),
            ("CreateVMSSAgentPoolFailed", ALLOCATION, StockOutError),
            ("QuotaExceeded", AZURE_QUOTA, CapacityError),
            ("InternalServerError", "sorry", LaunchError),
        )
    ),
    ("azure", "cluster", azure_fails(CLUSTER, "ControlPlaneError", "no reason"),
     LaunchError, "failed: ControlPlaneError: no reason"),
    ("gcp", "stock-out", google_has_no_stock, StockOutError, "resources available"),
    ("gcp", "cluster", google_fails("cluster"), LaunchError, "an internal error has occurred"),
    ("gcp", "pool", google_fails("pool"), LaunchError, "an internal error has occurred"),
]  # fmt: skip


def is_exactly(error, kind):
    """Whether an error has the class that decides about another zone, and is of one line."""
    decides = (StockOutError, CapacityError, CredentialsError)
    of = next((one for one in decides if isinstance(error, one)), LaunchError)
    return of is next((one for one in decides if issubclass(kind, one)), LaunchError)


@pytest.mark.parametrize(("lab", "fail", "kind", "why"), rows(*FAILED), indirect=["lab"])
def test_what_fails_after_its_request_is_explained_in_the_clouds_words_and_deleted(
    lab, fail, kind, why
):
    fail(lab)
    with pytest.raises(kind, match=why) as refused:
        lab.make()
    assert is_exactly(refused.value, kind)
    assert "\n" not in str(refused.value)
    lab.remove()
    assert lab.left() == []


def aws_answers(code, message):
    return lambda lab: lab.aws.fault("CreateCluster", code, message=message, times=99, status=403)


def azure_answers(*answer):
    return lambda lab: lab.azure.faults.refuse("PUT", POOL, AzureRefusal(*answer))


UNAUTHORIZED = (
    "The client 'x' does not have authorization to perform action 'Microsoft.A/b/write' over"
)
LACKS = "lacks the permission Microsoft.A/b/write"
LIST, NOT_USED = "clusters.list", "Kubernetes Engine API has not been used"
NO_QUOTA_PROJECT = (
    "Your application is authenticating by using local Application Default Credentials. The"
    " container.googleapis.com API requires a quota project, which is not set by default. To learn how to"
    " set your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
)
QUOTA_PROJECT = "gcloud auth application-default set-quota-project lab"
AWS_REFUSES = (
    ("ResourceNotFoundException", "No cluster for name: InsufficientCapacity", LaunchError, "No cluster"),
    ("AccessDeniedException", "not authorized: VcpuLimitExceeded", CredentialsError, r"not authorized.*policy\.json"),
    ("ResourceLimitExceededException", "too many clusters", CapacityError, "too many"),
    ("ExpiredTokenException", "old", CredentialsError, "has expired"),
    ("UnrecognizedClientException", "who", CredentialsError, "does not recognise this login"),
    ("InvalidSignatureException", "x", CredentialsError, "secret key does not match the access key"),
)  # fmt: skip
AZURE_REFUSES = (
    (400, "SkuNotAvailable", STOCK, StockOutError, "Try another --region"),
    (400, "BadRequest", STOCK, StockOutError, "Try another --region"),
    (409, "OperationNotAllowed", AZURE_QUOTA, CapacityError, "Quotas, Compute"),
    (403, "QuotaExceeded", "too many", CapacityError, "too many"),
    (400, "ErrCode_InsufficientVCPUQuota", "left 0", CapacityError, "Quotas, Compute"),
    (403, "AuthorizationFailed", UNAUTHORIZED, CredentialsError, LACKS),
    (401, "InvalidAuthenticationToken", "bad", CredentialsError, "az login"),
    (403, "AuthorizationFailed", f"{UNAUTHORIZED} scope '/subscriptions/QuotaExceeded'", CredentialsError, LACKS),
    (404, "ResourceGroupNotFound", "no group 'SkuNotAvailable'", AbsentError, "404"),
    (400, "InvalidParameter", "The value is wrong", LaunchError, "InvalidParameter"),
)  # fmt: skip
GOOGLE_REFUSES = (
    ("nodePools.create", Refusal(403, GOOGLE_QUOTA), CapacityError, r"NVIDIA_L4_GPUS.*larger quota"),
    (LIST, Refusal(403, 'Required "container.nodePools.create" permission(s) for "projects/quota-lab"'), CredentialsError, "policy.yaml"),
    (LIST, Refusal(401, "Invalid login of project quota-lab"), CredentialsError, "gcloud auth application-default login"),
    (LIST, Refusal(404, "Not found: projects/quota-lab/stockout"), LaunchError, "Not found"),
    (LIST, Refusal(500, "The quota service has an internal error"), LaunchError, "answered 500"),
    (LIST, Refusal(403, GOOGLE_QUOTA), CapacityError, "larger quota"),
    (LIST, Refusal(429, GOOGLE_QUOTA), CapacityError, "larger quota"),
    (LIST, Refusal(503, STOCK_OUT), StockOutError, "no capacity there"),
    (LIST, Refusal(403, NOT_USED, reason="SERVICE_DISABLED"), CredentialsError, "enable container.googleapis.com"),
    (LIST, Refusal(403, NO_QUOTA_PROJECT, reason="SERVICE_DISABLED"), CredentialsError, QUOTA_PROJECT),
    (LIST, Refusal(403, NO_QUOTA_PROJECT, reason="accessNotConfigured"), CredentialsError, QUOTA_PROJECT),
    (LIST, Refusal(403, NO_QUOTA_PROJECT), CredentialsError, QUOTA_PROJECT),
)  # fmt: skip
REFUSED = [
    *(("aws", one[0], aws_answers(*one[:2]), *one[2:]) for one in AWS_REFUSES),
    *(("azure", f"{one[0]} {one[1]} {index}", azure_answers(*one[:3]), one[3], re.escape(one[4]))
      for index, one in enumerate(AZURE_REFUSES)),
    *(("gcp", f"{how.code} {index}",
       lambda lab, method=method, how=how: lab.google.server.refuse(method, how, times=10**6), kind, why)
      for index, (method, how, kind, why) in enumerate(GOOGLE_REFUSES)),
]  # fmt: skip


@pytest.mark.parametrize(("lab", "refuse", "kind", "why"), rows(*REFUSED), indirect=["lab"])
def test_a_refusal_is_mapped_by_its_code_before_its_words(lab, refuse, kind, why):
    lab.lose_patience()
    refuse(lab)
    with pytest.raises(kind, match=why) as refused:
        lab.make()
    assert is_exactly(refused.value, kind)
    assert ("enable" in str(refused.value)) == ("enable" in why)
