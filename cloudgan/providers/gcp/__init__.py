"""Google Cloud: what is asked of it, and how."""
