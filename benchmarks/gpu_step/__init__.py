"""The training step under JAX on a GPU: how fast, how near the limit, what an epoch costs.

Run it as `python -m benchmarks.gpu_step` from the checkout; see docs/measurements/gpu.md.
"""
