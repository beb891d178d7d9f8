"""Options of the commands and of the Python functions: one frozen model each, whose fields are the flags."""
