"""Plug-ins: files in folders, classes of packages, and everything they do wrong."""

import importlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from ggscope.errors import Cancelled, ReadError, UnknownFormatError
from ggscope.readers import plugins, registry
from ggscope.readers.api import ReadContext
from ggscope.readers.plugins import PATH_VARIABLE, SAFE_VARIABLE, SECONDS_VARIABLE
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
    # Long enough for a machine that does other things as well.
    monkeypatch.setenv(SECONDS_VARIABLE, "60")
    monkeypatch.setattr(plugins, "user_folder", lambda: tmp_path / "user")
    plugins.reload()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("_ggscope_reader_"):
            del sys.modules[name]
    plugins.reload()


def load():
    return plugins.load_all({})


@pytest.fixture
def spans_file(folder):
    """Return a function that writes a file for the example plug-in."""
    (folder / "mine.py").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    path = folder / "x.spans"

    def write(*lines):
        path.write_text("\n".join(["#spans", *lines, ""]))
        return path

    return write


def test_example_plugin_opens_its_format(spans_file):
    trace_file = spans_file("0 10 main load", "10 30 main run", "5 9 io read")

    trace = registry.open_trace(trace_file)
    other = registry.open_trace(trace_file, context=ReadContext(options={"unit": "ms"}))

    assert trace.check() == []
    assert (trace.extent.end, other.extent.end) == (30, 30_000_000)
    assert trace.info.reader_id == "spans-text"
    assert [lane.name for lane in trace.lanes] == ["main", "io"]
    assert trace.spans.end.tolist() == [10, 30, 9]
    assert [trace.span_name(i) for i in range(3)] == ["load", "run", "read"]


@pytest.mark.parametrize(
    ("line", "unit", "error"),
    [
        ("0 10 main load", "hours", "'hours' for option unit"),
        ("0 ten main load", "ns", "not like 0 10 main work"),
    ],
)
def test_example_plugin_refuses_what_it_cannot_read(spans_file, line, unit, error):
    context = ReadContext(options={"unit": unit})

    with pytest.raises(ReadError, match=error):
        registry.open_trace(spans_file(line), context=context)


def test_example_plugin_reads_an_empty_list(spans_file):
    trace = registry.open_trace(spans_file())

    assert trace.spans.start.dtype == np.int64
    assert len(trace.spans) == 0


@pytest.mark.parametrize(("fact", "is_asked"), [("magic", False), ("doc", True)])
def test_plugin_is_asked_about_files_that_its_facts_allow(folder, fact, is_asked):
    facts = GOOD.replace('"")', '"", magic=(b"GOOD",))') if fact == "magic" else GOOD
    (folder / "a.py").write_text(
        facts.replace("Sniff(0)", "Sniff(60 * (head.size > 0))")
    )
    trace_file = folder / "x.other"
    trace_file.write_bytes(b"hello trace")

    with pytest.raises(ReadError) as caught:
        registry.open_trace(trace_file)

    assert isinstance(caught.value, UnknownFormatError) is not is_asked


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
            "Good.info is not a ReaderInfo",
        ),
        (GOOD.replace('"good"', '"Bad Id!"'), "invalid reader id 'Bad Id!'"),
        (GOOD.replace("return Sniff(0)", "return head.data[0]"), "IndexError"),
        (GOOD.replace("return Sniff(0)", "return 50"), "sniff returned int"),
        (GOOD + "    def __init__(self, x): pass\n", "TypeError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class E(BaseException): pass\nraise E('odd')", "E: odd"),
        ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise MemoryError", "MemoryError"),
        (GOOD.replace('"Good", (', "7, ("), "got `int` - at `$.title`"),
        (GOOD.replace('(".good",)', '".good"'), "got `str` - at `$.suffixes`"),
        (GOOD.replace('"")', '"", {1: 2})'), "at `key` in `$.options`"),
        (GOOD.replace('"")', '"", ("a",))'), "Good.info.options is not a tuple of Opt"),
        (GOOD.replace('"")', '"", role="tree")'), "role is 'tree', not one of trace,"),
        (GOOD.replace('"")', '"", magic="GOOD")'), "got `str` - at `$.magic`"),
        (GOOD.replace('"")', '"", magic=("GOOD",))'), "at `$.magic[0]`"),
        (GOOD.replace('"")', '"", keys="a")'), "got `str` - at `$.keys`"),
        (GOOD.replace('"")', '"", line="(")'), "invalid Good.info.line: missing )"),
        (GOOD.replace("return Sniff(0)", "raise SystemExit"), "SystemExit"),
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
    assert "'good' is already used by" in second.error


def test_id_of_a_built_in_reader_cannot_be_taken(folder):
    taken = registry.readers()[0].info.id
    (folder / "a.py").write_text(GOOD.replace('"good"', f'"{taken}"'))
    plugins.reload()

    assert "is already used by" in registry.statuses()[-1].status


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


@pytest.mark.parametrize(
    ("module", "name"),
    [("lanes", "LaneKind"), ("time", "Clock"), ("strings", "StringTable")],
)
def test_plugin_may_name_modules_that_went_into_others(folder, module, name):
    code = f"from ggscope.model.{module} import {name}\n{GOOD}"
    (folder / "good.py").write_text(code)

    assert registry.statuses()[-1].status == "ok"


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


def install_package(folder, monkeypatch, code, points):
    """Install a package with these entry points for readers."""
    package = folder / "lib"
    info = package / "demo_reader-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "demo_reader.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo-reader\n")
    (info / "entry_points.txt").write_text(f"[ggscope.readers]\n{points}")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, "demo_reader", raising=False)
    importlib.invalidate_caches()


def test_entry_point_of_a_package_is_loaded(folder, monkeypatch):
    install_package(
        folder,
        monkeypatch,
        GOOD,
        "good = demo_reader:Good\nlost = demo_reader:Lost\n"
        "wrong = demo_reader:Sniff.__doc__\n",
    )

    by_path = {item.path.split(" ")[0]: item for item in load()}

    assert by_path["good"].reader.info.id == "good"
    assert "AttributeError" in by_path["lost"].error
    assert "is not a class" in by_path["wrong"].error


def test_own_user_folder_is_named_after_the_program(monkeypatch):
    monkeypatch.undo()

    folder = plugins.user_folder()

    assert folder.name == "readers"
    assert "ggscope" in str(folder.parent)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.good"
    path.write_bytes(b"hello trace")
    return path


@pytest.fixture
def hurried(monkeypatch):
    """Give plug-ins hardly any time."""
    monkeypatch.setenv(SECONDS_VARIABLE, "0.2")


def later(statement):
    """Return a plug-in that does something when it is asked about a file."""
    return GOOD.replace(
        "return Sniff(0)", f"if head.size: {statement}\n        return Sniff(0)"
    )


# They end by themselves: without a limit, tests fail rather than wait for ever.
HANGS = "import time; time.sleep(6)"
SPINS = "import time; end = time.monotonic() + 6\nwhile time.monotonic() < end: pass"
LOOPS = (
    "import time; end = time.monotonic() + 6; "
    "[0 for _ in iter(lambda: time.monotonic() < end, False)]"
)


@pytest.mark.parametrize("code", [HANGS, SPINS, LOOPS])
def test_plugin_that_hangs_while_imported_is_switched_off(folder, hurried, code):
    (folder / "a.py").write_text(code)
    (folder / "b.py").write_text(GOOD)

    bad, good = load()

    assert bad.error
    assert "longer than 0.2 seconds" in bad.error
    assert good.reader.info.id == "good"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (later("import sys; sys.exit(3)"), "sniff: SystemExit: 3"),
        (later("raise BaseException('x')"), "sniff: BaseException: x"),
        (later("raise KeyboardInterrupt"), "sniff: KeyboardInterrupt"),
        (later("return 7"), "sniff returned 7"),
        (later("return Sniff(200)"), "sniff returned Sniff(confidence=200"),
        (later("return Sniff(90.5)"), "sniff returned Sniff(confidence=90.5"),
        (later("return Sniff(90, None)"), "sniff returned Sniff(confidence=90"),
    ],
)
def test_plugin_that_fails_at_a_file_is_switched_off_and_reported(
    folder, file, code, error
):
    (folder / "bad.py").write_text(code)

    for _ in range(2):
        with pytest.raises(UnknownFormatError):
            registry.open_trace(file)

    assert registry.statuses()[-1].status.startswith(f"failed: {error}")
    (trouble,) = registry.troubles()
    assert (trouble.code, trouble.place) == ("plugin_off", str(folder / "bad.py"))
    assert "good is disabled: sniff" in trouble.message
    assert "good" not in [reader.info.id for reader in registry.readers()]


@pytest.mark.parametrize("statement", [HANGS, LOOPS])
def test_plugin_that_hangs_at_a_file_is_asked_once(folder, file, hurried, statement):
    (folder / "bad.py").write_text(later(statement))

    with pytest.raises(UnknownFormatError):
        registry.open_trace(file)

    with pytest.raises(ReadError, match="disabled: sniff: it took longer"):
        registry.open_trace(file, reader_id="good")


def test_certain_built_in_reader_asks_and_awaits_no_plugin(folder, monkeypatch):
    (folder / "bad.py").write_text(HANGS)
    sample = ROOT / "resources" / "samples" / "llama.ggmlviz"

    trace = registry.open_trace(sample)

    assert registry.are_loading()
    assert trace.info.reader_id == "ggmlviz"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise SystemExit(2)", "good failed: SystemExit: 2"),
        ("raise KeyboardInterrupt", "good failed: KeyboardInterrupt"),
        ("return self.read(source, context)", "good failed: RecursionError"),
        ("return None", "good failed: TypeError: it returned NoneType, not a Trace"),
        ("raise MemoryError", "not enough memory"),
    ],
)
def test_plugin_that_fails_to_read_is_a_read_error_that_names_it(
    folder, file, body, error
):
    code = GOOD.replace("Sniff(0)", "Sniff(60)")
    (folder / "bad.py").write_text(code.replace("raise NotImplementedError", body))

    with pytest.raises(ReadError, match=error) as caught:
        registry.open_trace(file)

    assert caught.value.reader_id == "good"


def test_reading_of_a_plugin_that_never_looks_up_can_be_cancelled(folder, file):
    code = GOOD.replace("Sniff(0)", "Sniff(60)")
    code = code.replace(
        "raise NotImplementedError", "context.begun.set()\n        " + HANGS
    )
    (folder / "bad.py").write_text(code)
    cancel = threading.Event()
    context = ReadContext(cancel=cancel)
    context.begun = cancel

    with pytest.raises(Cancelled):
        registry.open_trace(file, context=context)


def test_prints_of_a_plugin_reach_stdout_from_nowhere(folder, file, capsys):
    loud = GOOD.replace("Sniff(0)", "(print('sniffing'), Sniff(60))[1]")
    loud = loud.replace("raise NotImp", "print('reading')\n        raise NotImp")
    (folder / "loud.py").write_text(loud)
    print("before")

    with pytest.raises(ReadError):
        registry.open_trace(file)

    print("after")
    captured = capsys.readouterr()
    assert captured.out == "before\nafter\n"
    assert {"sniffing", "reading"} <= set(captured.err.splitlines())


def test_what_a_plugin_changes_for_all_is_put_back_and_reported(folder, file):
    code = "import os, sys\nos.chdir('/')\nsys.setrecursionlimit(3000)\n" + GOOD
    (folder / "rude.py").write_text(code)
    before = os.getcwd(), sys.getrecursionlimit()

    status = registry.statuses()[-1]

    assert (os.getcwd(), sys.getrecursionlimit()) == before
    assert status.status == "ok"
    assert status.changes == (
        "it changed the working folder (put back)",
        "it changed the recursion limit (put back)",
    )


def test_those_who_do_not_wait_see_what_is_still_loading(folder):
    (folder / "slow.py").write_text(HANGS)

    assert registry.statuses(waits=False)[-1].status == "loading"
    assert len(registry.readers(waits=False)) == len(registry.BUILTIN)


def test_entry_point_that_hangs_is_switched_off(folder, monkeypatch, hurried):
    install_package(folder, monkeypatch, HANGS, "hangs = demo_reader:Good\n")

    (item,) = (i for i in load() if i.path.startswith("hangs"))

    assert "longer than 0.2 seconds" in item.error


@pytest.mark.parametrize("work", ["while True: pass", "time.sleep(30)"])
def test_abandoned_call_does_not_stop_traced_code(work):
    """The interpreter's note of such a request must not outlive it: see plugins.py."""
    code = (
        "import sys, time\n"
        "from ggscope.readers import plugins\n"
        f"def work():\n    {work}\n"
        "try:\n    plugins.run(work, seconds=0.05)\n"
        "except plugins.PluginError as error:\n    print(error)\n"
        "sys.settrace(lambda *_: None)\n"
        "print(sum(i for i in range(9)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert done.stdout == "it took longer than 0.05 seconds\n36\n"
