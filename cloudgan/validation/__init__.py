"""Is the generated shower a shower? NumPy only."""
