"""Split models: which parts are found, and what is said of those that are not."""

import shutil

import pytest

from ggscope.model.trace import Severity
from gguf_files import I32, U32, T, codes, encode, names, read_path

PART = "big-{:05d}-of-{:05d}.gguf"


def part(number, count, tensors, total=None, **fields):
    own = {"split.no": (U32, number), "split.count": (U32, count)}
    if total is not None:
        own["split.tensors.count"] = (I32, total)
    return encode(tensors, {**fields, **own})


def write_parts(folder, count=3, total=6):
    paths = []
    for i in range(count):
        rows = [T(f"blk.{i}.{k}.weight", (64,)) for k in ("a", "b")]
        path = folder / PART.format(i + 1, count)
        path.write_bytes(part(i, count, rows, total))
        paths.append(path)
    return paths


def test_any_part_opens_all_of_them(tmp_path):
    paths = write_parts(tmp_path)

    for path in paths:
        trace = read_path(path)

        assert codes(trace) == {}
        assert trace.tensors.file.tolist() == [0, 0, 1, 1, 2, 2]
        assert trace.info.paths[0] == path
        assert trace.info.byte_size == sum(p.stat().st_size for p in paths)
        assert [(m.part, m.n_parts) for m in trace.models] == [(0, 3), (1, 3), (2, 3)]


def test_missing_part_is_data_loss_and_the_others_keep_their_numbers(tmp_path):
    paths = write_parts(tmp_path)
    paths[1].unlink()

    trace = read_path(paths[2])

    (warning,) = trace.warnings
    assert (warning.code, warning.severity) == ("gguf_missing_part", Severity.DATA_LOSS)
    assert paths[1].name in warning.message
    assert [m.part for m in trace.models] == [0, 2]
    assert trace.tensors.layer.tolist() == [0, 0, 2, 2]


def test_many_missing_parts_are_counted_not_listed(tmp_path):
    (tmp_path / PART.format(7, 99999)).write_bytes(part(6, 99999, [T("a", (8,))]))

    trace = read_path(tmp_path / PART.format(7, 99999))

    assert codes(trace) == {"gguf_missing_part": 99998}
    assert len(trace.warnings[0].message) < 400


def test_damaged_part_leaves_the_others(tmp_path):
    paths = write_parts(tmp_path)
    paths[1].write_bytes(b"GGUF")
    paths[2].write_bytes(paths[2].read_bytes()[:-100])

    trace = read_path(paths[0])

    assert names(trace) == [f"blk.{i}.{k}.weight" for i in (0, 2) for k in ("a", "b")]
    assert set(codes(trace)) == {"gguf_part_unreadable", "gguf_data_missing"}
    missing = next(w for w in trace.warnings if w.code == "gguf_data_missing")
    assert missing.message.startswith(paths[2].name)


def test_total_that_differs_is_reported(tmp_path):
    paths = write_parts(tmp_path, total=7)

    trace = read_path(paths[0])

    assert "6 tensors" in trace.warnings[0].message
    assert codes(trace) == {"gguf_split_count": 1}


def test_renamed_part_says_that_the_others_were_not_looked_for(tmp_path):
    write_parts(tmp_path)
    shutil.copy(tmp_path / PART.format(2, 3), tmp_path / "copy.gguf")

    trace = read_path(tmp_path / "copy.gguf")

    assert codes(trace) == {"gguf_part_alone": 1}
    assert (trace.models[0].part, trace.models[0].n_parts) == (1, 3)
    assert len(trace.tensors) == 2


@pytest.mark.parametrize(
    "fields", [{}, {"split.no": (U32, 9), "split.count": (U32, 3)}]
)
def test_name_wins_over_a_head_that_disagrees(tmp_path, fields):
    path = tmp_path / PART.format(1, 1)
    path.write_bytes(encode([T("a", (8,))], fields))

    trace = read_path(path)

    assert codes(trace) == {"gguf_part_number": 1}
    assert trace.models[0].part == 0


def test_part_number_beyond_the_count_is_an_ordinary_name(tmp_path):
    path = tmp_path / PART.format(4, 3)
    path.write_bytes(encode([T("a", (8,))]))

    assert codes(read_path(path)) == {}


def test_parts_of_another_model_are_not_taken(tmp_path):
    write_parts(tmp_path)
    (tmp_path / "other-00001-of-00003.gguf").write_bytes(b"GGUF")
    (tmp_path / "big-00001-of-00002.gguf").write_bytes(b"GGUF")
    (tmp_path / "big-00000-of-00003.gguf").write_bytes(b"GGUF")

    assert codes(read_path(tmp_path / PART.format(1, 3))) == {}
