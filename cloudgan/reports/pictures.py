"""Grids of small grey images, as PNG in the page."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Image = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY_8_BIT = bytes([8, 0, 0, 0, 0])
_PAGE_PIXELS, _LEAST_PIXELS, _MOST_PIXELS = 980, 112, 448
"""Width of all images of a row, and the bounds of the width of one, in CSS pixels."""


@dataclass(frozen=True)
class Pictures:
    """A table of images.

    Attributes:
        columns: Headers.
        rows: Header of the row, and an image (height, width) per column; None is missing.
        caption: Text above.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Image | None, ...]], ...]
    caption: str = ""

    def html(self, name: str) -> str:
        """Returns the table; `name` is unique in the page. Images have a text for screen readers."""
        width = min(max(_PAGE_PIXELS // max(len(self.columns), 1), _LEAST_PIXELS), _MOST_PIXELS)
        heads = "".join(
            f'<th scope="col" class="l">{escape(column)}</th>' for column in self.columns
        )
        body = "\n".join(
            f'<tr><th scope="row" class="l">{escape(row)}</th>'
            + "".join(
                f'<td class="l">{_cell(image, f"{row}, {column}", width)}</td>'
                for image, column in zip(images, self.columns, strict=True)
            )
            + "</tr>"
            for row, images in self.rows
        )
        return (
            f'<div class="wide" id="{name}" role="region" tabindex="0"'
            f' aria-label="{escape(self.caption)}"><table class="pictures">'
            f"<caption><span>{escape(self.caption)}</span></caption>\n"
            f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        )


def png(image: Image) -> bytes:
    """Returns a grey image (height, width) as PNG.

    Source: PNG specification, third edition, https://www.w3.org/TR/png-3/.
    """
    height, width = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # each begins with its filter, 0: none
    chunks = (
        (b"IHDR", struct.pack(">II", width, height) + _GREY_8_BIT),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def _cell(image: Image | None, text: str, width: int) -> str:
    if image is None:
        return ""
    data = base64.b64encode(png(image)).decode()
    return f'<img src="data:image/png;base64,{data}" width="{width}" alt="{escape(text)}">'
