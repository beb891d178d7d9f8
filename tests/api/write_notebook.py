"""Writes examples/notebook.ipynb from docs/notebook.md, whose cells tests/api/test_notebook.py runs; `make golden` runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook() -> str:
    """Returns the notebook, in format 4.5 of Jupyter; its cells have no outputs."""
    page = (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8")
    page = re.sub(r"\]\((\w+\.md)", r"](../docs/\1", page)
    cells = []
    for number, part in enumerate(re.split(r"^```(?:python)?\n", page, flags=re.MULTILINE)):
        cell = {"id": f"cell-{number}", "metadata": {}, "source": part.strip().splitlines(True)}
        if number % 2:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        else:
            cell |= {"cell_type": "markdown"}
        if cell["source"]:
            cells.append(dict(sorted(cell.items())))
    made = {"cells": cells, "metadata": {"kernelspec": _KERNEL}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
