"""What every other part shares: errors, settings, configuration, records. Standard library and pydantic only."""
