"""The documents that programs and people exchange: run.yaml, plan.json, launch.json, record.jsonl, cost.json.

Imports core only. Read config.py first, then plan.py, launch.py, record.py and cost_report.py.
"""
