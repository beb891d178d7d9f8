"""What the pod's first container left for the record."""

from __future__ import annotations

from cloudgan.core.installed_wheels import FILE_NAME, installed_wheels

NOTE = (
    '{"time": "2026-11-21T12:00:00Z", "wheels": 2, "bytes": 10, "fetch_seconds": 1.5,'
    ' "install_seconds": 2.0}'
)


def test_a_note_beside_the_packages_is_read(tmp_path):
    (tmp_path / FILE_NAME).write_text(NOTE)
    found = installed_wheels(tmp_path)
    assert (found.wheels, found.seconds) == (2, 3.5)


def test_no_note_and_one_that_is_not_ours_are_no_reason_to_fail(tmp_path):
    assert installed_wheels(tmp_path) is None
    assert installed_wheels() is None, "this program was not installed by a pod"
    (tmp_path / FILE_NAME).write_text('{"wheels": "many"}')
    assert installed_wheels(tmp_path) is None
