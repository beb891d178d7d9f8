"""What a run costs, and what it would cost elsewhere: arithmetic on dated prices, no network."""
