"""The pod's side of a run: a light process that starts, watches and restarts `cloudgan train`."""
