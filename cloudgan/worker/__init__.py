"""The agent in a pod: rendezvous, trainer process, restarts, preemption, sync with the store.

May import `cloudgan.training.cluster`, `ranks.layout`, `ranks.hydra`, `storage`, `schema` and `core`.
Read `agent.py` first, then `restart_rounds.py`.
"""
