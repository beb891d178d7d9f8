"""Assessment of a sample and its verdict: `assess` measures, `apply_gates` grades.

May import observables and metrics. Start with assess.py.
"""
