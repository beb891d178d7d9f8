"""Looks at clouds: what is missing, what is there, what it costs, and what nobody needs any more."""
