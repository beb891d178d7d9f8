"""Emulator of the AWS services that a run uses: one HTTP server on loopback.

    with amazon(account) as aws:
        cloud = AwsCloud(aws.session(), "us-east-1")

moto answers for S3, STS, and IAM's roles. EKS, Auto Scaling, and the parts of
EC2, Service Quotas and IAM that moto lacks (or loads for seconds) are here. Each request
is read, and each answer checked and written, by botocore's own model of the service: a field that AWS
does not have fails the test.

A node group that is made larger adds nodes to a test cluster, when a test has tied them together.

What it does NOT prove: rights (nothing is refused that no fault refuses), what AWS checks beyond its
models, real delays, capacity, quotas, drivers, networks and prices.
"""

from __future__ import annotations

from emulators.aws.server import Amazon, amazon

__all__ = ["Amazon", "amazon"]
