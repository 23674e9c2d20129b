"""The table of ggml's tensor types against the gguf package, and sizes."""

import importlib.util
import json

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.model.ggml.types import (
    file_type_name,
    fills_blocks,
    find_type,
    ggml_types,
    tensor_bytes,
    type_name,
    type_number,
)
from support import ROOT

KINDS = sorted(gguf.GGML_QUANT_SIZES)


def generator():
    path = ROOT / "packaging" / "make_ggml_types.py"
    spec = importlib.util.spec_from_file_location("make_ggml_types", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_holds_every_type_of_the_package_with_its_sizes():
    ours = {t.number: (t.block, t.bytes) for t in ggml_types() if not t.is_dropped}

    assert ours == {k.value: v for k, v in gguf.GGML_QUANT_SIZES.items()}


def test_committed_table_is_what_the_script_writes():
    committed = json.loads((ROOT / "resources/ggml/types.json").read_text("utf-8"))

    assert committed["types"] == generator().table()["types"]
    assert committed["file_types"] == generator().table()["file_types"]


def test_dropped_types_take_numbers_that_the_package_leaves_free():
    dropped = {t.number for t in ggml_types() if t.is_dropped}

    assert dropped
    assert not dropped & {k.value for k in KINDS}


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "f32"), (12, "q4_K"), (30, "bf16"), (39, "mxfp4"), (-1, ""), (99, "type#99")],
)
def test_type_name_is_ggmls_spelling(number, name):
    assert type_name(number) == name


def test_type_number_ignores_case_and_knows_no_strangers():
    assert [type_number(n) for n in ("Q4_K", " f16", "q9_Z")] == [12, 1, -1]
    assert all(type_number(t.name) == t.number for t in ggml_types())


def test_file_type_is_named_as_people_know_it():
    assert (file_type_name(15), file_type_name(-1)) == ("Q4_K_M", "")


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    blocks=st.integers(1, 50),
    rest=st.lists(st.integers(1, 300), max_size=3),
)
def test_tensor_bytes_equals_the_packages_shape_arithmetic(kind, blocks, rest):
    shape = (blocks * gguf.GGML_QUANT_SIZES[kind][0], *rest)

    packed = gguf.quant_shape_to_byte_shape(tuple(reversed(shape)), kind)

    expected = 1
    for n in packed:
        expected *= n
    assert tensor_bytes(kind.value, shape) == expected
    assert fills_blocks(kind.value, shape)


@pytest.mark.parametrize(
    ("number", "shape"), [(99, (4,)), (0, (-1,)), (0, (1 << 62, 4))]
)
def test_tensor_bytes_of_the_impossible_is_unknown(number, shape):
    assert tensor_bytes(number, shape) == -1


def test_rows_that_are_no_whole_blocks_are_reported():
    assert not fills_blocks(12, (100, 2))
    assert fills_blocks(99, (100, 2))
    assert find_type(99) is None
