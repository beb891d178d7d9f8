"""The caveats of TPU slices, and the runtime that TensorFlow needs on them."""

import pytest

from cloudgan.launch.backends.tpu_vm.requests import (
    slice_environment,
    slice_notes,
    slice_of,
    slices,
    unsupported_reason,
)


def test_a_discontinued_slice_names_an_available_one():
    old = {name: one.replacement for name, one in slices().items() if one.replacement}
    assert set(old) == {"v2-8", "v2-32", "v3-8", "v3-32"}
    for name, instead in old.items():
        assert not slice_of(instead).replacement
        assert slice_of(instead).hosts == 1
        assert any(instead in note and name in note for note in slice_notes(slice_of(name)))


def test_multi_host_slices_name_a_single_host_one():
    nearest = {}
    for name in ("v2-32", "v3-32", "v4-32", "v5litepod-16"):
        assert slice_of(name).hosts == 4
        sentence = slice_notes(slice_of(name))[-1]
        assert "`deploy` starts `-- train --engine=jax` only" in sentence
        assert "TensorFlow's last releases" in sentence
        nearest[name] = sentence.rpartition(" ")[2]
        assert slice_of(nearest[name]).hosts == 1
    assert nearest["v5litepod-16"] == "v5litepod-8"
    assert nearest["v4-32"] == "v5p-8"
    assert slice_notes(slice_of("v5litepod-8")) == ()


@pytest.mark.parametrize("name", slices())
def test_pjrt_is_selected_for_the_generations_that_need_it_only(name):
    generation = name.partition("-")[0]
    needs_it = generation in ("v5litepod", "v5p", "v6e")
    expected = {"PJRT_DEVICE": "TPU", "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true"}
    assert slice_environment(name) == (expected if needs_it else {})


@pytest.mark.parametrize("name", ["tpu7x-8", "tpu-v7", "TPU7x", "v7x-4", "tpu_v7x", "v7-8"])
def test_tpu7x_is_refused_in_one_sentence(name):
    reason = unsupported_reason(name)
    assert f"cannot train on {name}" in reason
    assert ". " not in reason


@pytest.mark.parametrize("name", ["v6e-8", "tpu-v6e", "v3-8", "v100", "TPU-v5e", "a2-highgpu-1g"])
def test_other_names_are_not_taken_for_tpu7x(name):
    assert unsupported_reason(name) is None
