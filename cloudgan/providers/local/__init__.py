"""The same manifest on this machine: one process for each pod, and no cluster."""
