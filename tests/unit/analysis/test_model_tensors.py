"""Tensors of model files, in the order in which they lie."""

import numpy as np

from builders import llama_like_trace
from ggscope.analysis.model_tensors import model_tensors
from ggscope.model.names import COMPONENTS, parse
from ggscope.model.trace import Trace
from gguf_files import TENSORS, T, encode, read_gguf


def listed(trace: Trace) -> list[tuple[str, int, int, str]]:
    tensors = model_tensors(trace)
    names = [trace.strings[i] for i in trace.tensors.name[tensors.rows].tolist()]
    parts = [COMPONENTS[i] for i in tensors.component.tolist()]
    columns = tensors.offset.tolist(), tensors.size.tolist()
    return list(zip(names, *columns, parts, strict=True))


def test_tensors_stand_in_the_order_of_their_offsets(tmp_path) -> None:
    shuffled = [T("b.weight", (4, 4), offset=64), T("a.weight", (2, 4), offset=0),
                T("c.weight", (4,), offset=32)]  # fmt: skip
    trace = read_gguf(tmp_path, encode(shuffled, data_bytes=256))

    tensors = model_tensors(trace)
    start = int(tensors.starts[0])

    assert [row[:3] for row in listed(trace)] == [
        ("a.weight", start, 32),
        ("c.weight", start + 32, 16),
        ("b.weight", start + 64, 64),
    ]


def test_size_and_part_of_every_tensor_are_those_of_its_name(tmp_path) -> None:
    trace = read_gguf(tmp_path, encode())

    rows = {name: (size, part) for name, _, size, part in listed(trace)}

    assert rows == {t.name: (t.size, parse(t.name).component) for t in TENSORS}


def test_file_ends_where_it_ends_and_its_data_begin_after_the_head(tmp_path) -> None:
    data = encode()
    trace = read_gguf(tmp_path, data)

    tensors = model_tensors(trace)

    assert tensors.files == ("m.gguf",)
    assert tensors.ends.tolist() == [len(data)]
    assert tensors.starts[0] == len(data) - sum(-(-t.size // 32) * 32 for t in TENSORS)
    assert (tensors.file == 0).all()


def test_trace_without_a_model_file_lists_the_tensors_that_it_names() -> None:
    trace = llama_like_trace(tokens=1, layers=2)

    tensors = model_tensors(trace)

    assert tensors.files == ()
    assert (
        sorted(tensors.rows.tolist())
        == np.flatnonzero(trace.tensors.name >= 0).tolist()
    )
    assert (tensors.file == -1).all()


def test_model_without_tensors_is_empty(tmp_path) -> None:
    assert len(model_tensors(read_gguf(tmp_path, encode([])))) == 0
