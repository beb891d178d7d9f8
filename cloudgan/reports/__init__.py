"""Self-contained pages; no noun of physics or of clouds."""
