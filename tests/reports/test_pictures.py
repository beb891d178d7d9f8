"""Grids of images in a page."""

import base64
import io
import re

import numpy as np
from PIL import Image

from cloudgan.reports.page import Page, Section, page_csv, page_markdown, render
from cloudgan.reports.pictures import Pictures, png


def gradient():
    return np.arange(35, dtype=np.uint8).reshape(5, 7)


def test_a_png_holds_the_values_of_the_image():
    with Image.open(io.BytesIO(png(gradient()))) as read:
        read.verify()
    with Image.open(io.BytesIO(png(gradient()))) as read:
        assert read.mode == "L"
        assert np.array_equal(np.asarray(read), gradient())


def test_a_page_shows_each_image_with_its_text_and_its_policy_allows_them():
    grid = Pictures(("1", "2"), (("cell <0>", (gradient(), None)),), "Samples")
    html = render(Page("Grid", sections=(Section("s", (grid,)),)))
    (source,) = re.findall(r'<img src="data:image/png;base64,([^"]+)"', html)
    assert base64.b64decode(source) == png(gradient())
    assert 'alt="cell &lt;0&gt;, 1"' in html
    assert "img-src data:;" in html
    assert "img-src" not in render(Page("No pictures"))


def test_markdown_and_csv_leave_images_out():
    page = Page("Grid", sections=(Section("s", (Pictures(("1",), (("a", (gradient(),)),)),)),))
    assert "base64" not in page_markdown(page) + page_csv(page)
