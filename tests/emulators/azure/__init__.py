"""Emulator of Azure: Resource Manager, Entra ID, and access to Blob Storage.

The product's own clients talk to it over TLS, by the names that Azure has: a proxy of this machine
connects `management.azure.com`, `login.microsoftonline.com` and `*.blob.core.windows.net` to it.

What is faithful: addresses, versions, long-running operations (201 and 202, Azure-AsyncOperation,
Location, provisioningState), tags and their filter, that AKS does one operation after the other, that a
pool's nodes join the cluster with their labels and taints and go with it. Every body that is sent to
AKS, and every answer of it, is checked against the models of azure-mgmt-containerservice: an unknown
field, a wrong type, an unknown word of an enumeration, or a field that only AKS may write is an error.
Other services are checked against schemas that were written by hand.

What it does NOT prove: that AKS takes these bodies (its own checks are many more), rights of roles
(a call is recorded, not judged), quotas and stock, drivers, names that another user has taken,
workload identity's webhook and federation, how long anything takes, real texts of errors.
"""

from __future__ import annotations

from emulators.azure.cloud import SmallAzure, small_azure

__all__ = ["SmallAzure", "small_azure"]
