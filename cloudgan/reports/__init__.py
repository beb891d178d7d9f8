"""Reports as HTML, Markdown and CSV, with tables and SVG plots, independent of any domain.

May import `core`. Read `page.py` first, then `table.py` and `plot_frame.py`.
"""
