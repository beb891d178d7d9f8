"""Reports as HTML, Markdown and CSV, with tables and Matplotlib charts, independent of any domain.

May import `core`. Read `page.py` first, then `table.py` and `charts.py`.
"""
