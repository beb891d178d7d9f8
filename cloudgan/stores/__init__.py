"""Where files of a run are kept: a folder, or a bucket of a cloud."""
