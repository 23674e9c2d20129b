"""Plug-ins: files in folders, classes of packages, and everything they do wrong."""

import importlib
import os
import sys

import numpy as np
import pytest

from ggscope.errors import CorruptError
from ggscope.readers import plugins, registry
from ggscope.readers.plugins import PATH_VARIABLE, SAFE_VARIABLE
from support import ROOT

EXAMPLE = ROOT / "resources" / "docs" / "plugin-example.py"
GOOD = """
from ggscope.readers.api import ReaderInfo, Sniff
class Good:
    info = ReaderInfo("good", "Good", (".good",), "")
    def sniff(self, head):
        return Sniff(0)
    def read(self, source, context):
        raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return the only plug-in folder there is."""
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    monkeypatch.delenv(SAFE_VARIABLE, raising=False)
    monkeypatch.setattr(plugins, "user_folder", lambda: tmp_path / "user")
    plugins.reload()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("_ggscope_reader_"):
            del sys.modules[name]
    plugins.reload()


def load():
    return plugins.load_all(())


def test_example_plugin_opens_its_format(folder):
    (folder / "mine.py").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    trace_file = folder / "x.spans"
    trace_file.write_text("#spans\n0 10 main load\n10 30 main run\n5 9 io read\n")

    trace = registry.open_trace(trace_file)

    assert trace.check() == []
    assert trace.info.reader_id == "spans-text"
    assert [lane.name for lane in trace.lanes] == ["main", "io"]
    assert trace.spans.end.tolist() == [10, 30, 9]
    assert [trace.span_name(i) for i in range(3)] == ["load", "run", "read"]


def test_example_plugin_tells_a_broken_line(folder):
    (folder / "mine.py").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    trace_file = folder / "x.spans"
    trace_file.write_text("#spans\n0 ten main load\n")

    with pytest.raises(CorruptError, match="not like 0 10 main work"):
        registry.open_trace(trace_file)


def test_example_plugin_reads_an_empty_list(folder):
    (folder / "mine.py").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    trace_file = folder / "x.spans"
    trace_file.write_text("#spans\n")

    trace = registry.open_trace(trace_file)

    assert trace.spans.start.dtype == np.int64
    assert len(trace.spans) == 0


def test_plugin_is_listed_with_its_origin_and_file(folder):
    (folder / "good.py").write_text(GOOD)

    status = registry.statuses()[-1]

    assert (status.info.id, status.origin, status.status) == ("good", "plug-in", "ok")
    assert status.path == str(folder / "good.py")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named"),
        ("def f(:\n", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1/0", "ZeroDivisionError"),
        ("x = 1", "no class with info, sniff and read"),
        (GOOD.replace("def read", "def write"), "class Good lacks read"),
        (GOOD.replace("info = Reader", "other = Reader"), "class Good lacks info"),
        (
            GOOD.replace('ReaderInfo("good", "Good", (".good",), "")', "3"),
            "Good.info is no ReaderInfo",
        ),
        (GOOD.replace('"good"', '"Bad Id!"'), "reader id 'Bad Id!' is not like"),
        (GOOD.replace("return Sniff(0)", "return head.data[0]"), "IndexError"),
        (GOOD.replace("return Sniff(0)", "return 50"), "sniff returned int"),
        (GOOD + "    def __init__(self, x): pass\n", "TypeError"),
    ],
)
def test_bad_plugin_is_listed_as_failed_and_skipped(folder, code, error):
    (folder / "a_bad.py").write_text(code)
    (folder / "b_good.py").write_text(GOOD.replace('"good"', '"fine"'))

    bad, good = load()

    assert bad.reader is None
    assert error in bad.error
    assert good.reader.info.id == "fine"
    assert good.error == ""


def test_unreadable_bytes_are_listed_as_failed(folder):
    (folder / "bad.py").write_bytes(b"\xff\xfe\x00")

    (bad,) = load()

    assert "SyntaxError" in bad.error


def test_two_classes_in_one_file_are_two_readers(folder):
    two = GOOD + GOOD.replace("class Good", "class Second").replace('"good"', '"two"')
    (folder / "both.py").write_text(two)

    assert [item.reader.info.id for item in load()] == ["good", "two"]


def test_class_that_is_only_imported_is_no_reader(folder):
    (folder / "x.py").write_text("from ggscope.readers.api import Reader\n")

    (item,) = load()

    assert "no class" in item.error


def test_repeated_id_is_refused(folder):
    (folder / "a.py").write_text(GOOD)
    (folder / "b.py").write_text(GOOD)

    first, second = load()

    assert first.error == ""
    assert second.reader is None
    assert "'good' is taken by" in second.error


def test_id_of_a_built_in_reader_cannot_be_taken(folder):
    taken = registry.readers()[0].info.id
    (folder / "a.py").write_text(GOOD.replace('"good"', f'"{taken}"'))
    plugins.reload()

    assert "is taken by" in registry.statuses()[-1].status


def test_hidden_and_underscored_files_are_not_loaded(folder):
    (folder / "_private.py").write_text("1/0")
    (folder / "notes.txt").write_text("1/0")

    assert load() == ()


def test_what_a_plugin_prints_stays_off_stdout(folder, capsys):
    (folder / "loud.py").write_text("print('hello')\n" + GOOD)

    load()

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_plugin_may_define_dataclasses(folder):
    code = "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\n"
    (folder / "d.py").write_text(code + GOOD)

    assert [item.error for item in load()] == [""]


def test_safe_mode_loads_no_plugins(folder, monkeypatch):
    (folder / "good.py").write_text(GOOD)
    monkeypatch.setenv(SAFE_VARIABLE, "1")

    assert load() == ()


def test_several_folders_are_searched_in_order(tmp_path, monkeypatch):
    for name in "ba":
        (tmp_path / name).mkdir()
        (tmp_path / name / "r.py").write_text(GOOD.replace('"good"', f'"r-{name}"'))
    paths = os.pathsep.join([str(tmp_path / "b"), "", str(tmp_path / "a")])
    monkeypatch.setenv(PATH_VARIABLE, paths)

    assert [item.reader.info.id for item in load()] == ["r-b", "r-a"]


def test_users_folder_is_searched_too(folder):
    (folder / "user").mkdir()
    (folder / "user" / "r.py").write_text(GOOD)

    assert [item.reader.info.id for item in load()] == ["good"]


def test_folder_that_is_a_file_is_harmless(folder, monkeypatch):
    (folder / "plain").write_text("")
    monkeypatch.setenv(PATH_VARIABLE, str(folder / "plain"))

    assert load() == ()


def test_folder_that_cannot_be_searched_is_listed(monkeypatch):
    monkeypatch.setenv(PATH_VARIABLE, "/" + "x" * 5000)

    (item,) = load()

    assert item.reader is None
    assert "OSError" in item.error


def test_plugin_leaves_no_cache_in_its_folder(folder):
    (folder / "good.py").write_text(GOOD)

    load()

    assert [p.name for p in folder.iterdir()] == ["good.py"]


def test_entry_point_of_a_package_is_loaded(folder, monkeypatch):
    package = folder / "lib"
    info = package / "demo_reader-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "demo_reader.py").write_text(GOOD)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo-reader\n")
    (info / "entry_points.txt").write_text(
        "[ggscope.readers]\ngood = demo_reader:Good\nlost = demo_reader:Lost\n"
        "wrong = demo_reader:Sniff.__doc__\n"
    )
    monkeypatch.syspath_prepend(str(package))
    importlib.invalidate_caches()

    by_path = {item.path.split(" ")[0]: item for item in load()}
    sys.modules.pop("demo_reader", None)

    assert by_path["good"].reader.info.id == "good"
    assert "AttributeError" in by_path["lost"].error
    assert "is no class" in by_path["wrong"].error


def test_own_user_folder_is_named_after_the_program(monkeypatch):
    monkeypatch.undo()

    folder = plugins.user_folder()

    assert folder.name == "readers"
    assert "ggscope" in str(folder.parent)
