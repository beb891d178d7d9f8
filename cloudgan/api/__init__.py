"""The public Python API and the use cases of the commands: typed functions that return values.

Imports any package except `cli`; prints nothing, and reports progress to `core.progress.Progress`.
Read `run.py` and `train.py` first; `cloudgan/__init__.py` lists the public names.
"""
