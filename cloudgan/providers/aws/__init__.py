"""Amazon Web Services: EKS, its node groups, S3."""
