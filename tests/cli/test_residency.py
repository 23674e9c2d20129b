"""``ggscope residency``: what of a model file is in the page cache now."""

import json
import sys

import pytest

from cached_files import PAGE, evict, read_pages
from gguf_files import U32, T, encode
from session_files import write_map
from statements import new_statements

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not report the page cache"
)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model ü.gguf"
    tensors = [
        T("a.weight", (64, 64)),
        T("b.weight", (64, 640)),
        T("c.weight", (64, 64)),
    ]
    path.write_bytes(encode(tensors))
    return path


def test_pages_that_are_not_in_memory_are_reported_by_tensor(run, model):
    size = model.stat().st_size
    evict(model)
    last = size // PAGE
    read_pages(model, last, 1)

    value = json.loads(run("residency", str(model), "--json").out)

    assert value["known"] is True
    assert value["why"] is None
    assert value["file_bytes"] == size
    assert value["file_resident_bytes"] == size - last * PAGE
    held = {t["name"]: t["resident_bytes"] for t in value["tensors"]}
    assert held["a.weight"] == held["b.weight"] == 0
    assert held["c.weight"] > 0


def test_tensors_that_lack_most_stand_first(run, model):
    evict(model)

    out = run("residency", str(model)).out

    assert out.startswith("0 B of ")
    assert "are in the page cache now, by mincore." in out
    assert "Tensors: 0 whole, 0 in part, 3 not at all." in out
    assert out.splitlines()[4].startswith("b.weight")


def test_file_that_was_read_is_in_memory(run, model):
    model.read_bytes()

    value = json.loads(run("residency", str(model), "--json").out)

    assert value["file_resident_bytes"] == value["file_bytes"]
    assert all(t["resident_bytes"] == t["bytes"] for t in value["tensors"])


def test_what_the_system_does_not_show_is_not_known(run, model, monkeypatch):
    from ggscope.live import residency

    monkeypatch.setattr(residency, "_mincore", lambda: None)

    result = run("residency", str(model), "--json")

    value = json.loads(result.out)
    assert result.code == 1
    assert value["known"] is False
    assert value["file_resident_bytes"] is None
    assert {t["resident_bytes"] for t in value["tensors"]} == {None}
    assert "not known: this system does not report" in result.err


def test_pages_and_tensors_are_reported_only_where_they_are_known(
    run, model, monkeypatch
) -> None:
    from ggscope.live import residency

    model.read_bytes()
    known = run("residency", str(model)).out
    monkeypatch.setattr(residency, "_mincore", lambda: None)
    unknown = run("residency", str(model)).out

    assert len(new_statements(known, unknown)) >= 2


def test_tensors_are_looked_for_in_their_own_file(run, model, tmp_path) -> None:
    """Not in a map or in another part, which have only their place."""
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:-100])
    parts = [tmp_path / f"big-{i:05d}-of-00002.gguf" for i in (1, 2)]
    for i, path in enumerate(parts):
        own = {"split.no": (U32, i), "split.count": (U32, 2)}
        path.write_bytes(encode([T(f"blk.{i}.a.weight", (64, 64))], own))
    table = write_map(tmp_path / "memory-map.json", [("a.weight", 0, 64)])
    table.write_text(table.read_text().replace('"tiny"', '"memory-map.json"'))
    whole, short, part, of_map = (
        run("residency", str(path)).out for path in (model, cut, parts[0], table)
    )

    assert new_statements(of_map, whole + short + part)
    assert new_statements(short, whole + part + of_map)
    assert new_statements(part, whole + short + of_map)
    assert "blk.1.a.weight" not in part
