"""What the cells train: digits, a ring of Gaussians with known answer, and showers."""
