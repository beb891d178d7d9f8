"""From a plan to a run that is started, followed, and gone when it should be."""
