"""Job backend for a Slurm cluster: one sbatch script per run, and a folder on a shared file system.

May import `cloudgan.launch.kubernetes`, `schema` and `core`.
Read `backend.py` first, then `requests.py` and `job.sh`.
"""
