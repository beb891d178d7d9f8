"""AWS: EKS clusters and node groups, S3 buckets, IAM roles.

May import what `launch.clouds` may. Read `planner`, then `client`.
"""
