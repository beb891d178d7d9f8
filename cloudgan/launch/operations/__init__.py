"""Operations on launched runs (start, status, logs, cancel, down, exec) and on accounts (check, setup, doctor).

Imports launch/plan, launch/lifecycle and lower layers. Read targets.py and deployment.py first.
"""
