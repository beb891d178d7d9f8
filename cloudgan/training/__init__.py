"""One training step, two loops, four strategies."""
