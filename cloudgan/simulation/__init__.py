"""Sources of simulated showers."""
