"""What the cells train: a ring of Gaussians with known answer, and showers."""
