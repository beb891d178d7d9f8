"""Lets `python -m cloudgan` do what `cloudgan` does."""

from cloudgan.cli.main import main

main()
