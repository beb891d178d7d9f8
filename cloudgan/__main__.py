"""Runs the command line: `python -m cloudgan` is `cloudgan`."""

from cloudgan.cli.main import main

main()
