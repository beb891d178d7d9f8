"""The lifecycle of a launched run: applies a plan, records what it created, monitors the run and deletes its resources.

Each fact of a run is kept once:

- what shall exist: the desired states in the store (`run_registry`), numbered, before any resource exists;
- what exists: the labels of the resources, as the cloud lists them (`ownership`);
- what was sent, when nodes came and went, what it used, and why it ended: launch.json (`launch_log`);
- what the program does: its heartbeat, record and checkpoints in the store (`run_results`).

Imports launch/clouds, launch/kubernetes and lower layers. Read apply.py first.
"""
