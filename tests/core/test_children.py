from __future__ import annotations

import threading

from cloudgan.core.children import tail_lines


def test_what_is_there_is_read_with_a_last_line_that_has_no_end(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n\ntwo \xff\nthree")
    assert list(tail_lines(path)) == ["one", "", "two \ufffd", "three"]


def test_a_file_is_followed_to_its_end_and_lines_are_never_cut(tmp_path):
    path = tmp_path / "log"
    path.write_text("one\ntw")
    asked, over = threading.Event(), threading.Event()

    def is_over():
        found = over.is_set()
        asked.set()
        return found

    def write():
        asked.wait(10)
        with path.open("a") as file:
            file.write("o\nthree\n")
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert list(tail_lines(path, is_over)) == ["one", "two", "three"]
    writer.join()
