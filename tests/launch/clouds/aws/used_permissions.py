"""The policies in deploy/aws, and the requests that they must and must not allow."""

import json
from pathlib import Path

from emulators.aws.iam_policies import Authorization, matches

FOLDER = Path(__file__).parents[4] / "deploy" / "aws"
ACCOUNT, REGION = "123456789012", "us-east-1"


def document(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def unused(name, asked):
    """Returns the actions that no recorded request takes, each with its statement."""
    return {
        (statement["Sid"], action)
        for statement in document(name)["Statement"]
        for action in statement["Action"]
        if not any(one.action == action and matches(statement, one) for one in asked)
    }


def ask(action, resource, *, tags=None, sent=None, owner=ACCOUNT, **keys):
    """Returns a request of a user.

    Args:
        action: Such as ``eks:DeleteCluster``.
        resource: End of its ARN, such as ``cluster/cloudgan``; or the whole.
        tags: Of the resource.
        sent: Tags in the request.
        owner: Account of the resource.
        keys: Other condition keys of IAM.
    """
    service = action.partition(":")[0]
    places = {"s3": "", "iam": f":{ACCOUNT}"}
    if resource != "*" and not resource.startswith("arn:"):
        place = places.get(service, f"{REGION}:{ACCOUNT}")
        separator = "::" if service == "s3" else ":"
        resource = f"arn:aws:{service}:{place}{separator}{resource}"
    context = {"aws:principalaccount": (ACCOUNT,), "aws:resourceaccount": (owner,)}
    context |= {f"aws:resourcetag/{key}": (value,) for key, value in (tags or {}).items()}
    context |= {f"aws:requesttag/{key}": (value,) for key, value in (sent or {}).items()}
    context |= {"aws:tagkeys": tuple(sent)} if sent else {}
    context |= {f"iam:{key}": (value,) for key, value in keys.items()}
    return Authorization(action, resource, context)
