"""Settings: whatever is stored, the program starts."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ggscope.analysis.rows.lanes import LaneState
from ggscope.session.settings import MAX_RECENT, Appearance, Layout, Settings
from ggscope.session.settings_store import IniStore, MemoryStore
from statements import new_statements


def test_nothing_stored_gives_the_defaults() -> None:
    settings = Settings(MemoryStore())

    assert settings.appearance == Appearance()
    assert settings.problems == []


def test_change_is_stored_and_reported() -> None:
    store, messages = MemoryStore(), []
    settings = Settings(store)
    settings.changed.connect(messages.append)

    settings.change("appearance", theme="light", font_scale=125)
    settings.change("appearance", theme="light")

    assert messages == ["appearance"]
    assert Settings(store).appearance == Appearance(theme="light", font_scale=125)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("appearance/theme", '"pink"'),
        ("appearance/theme", "dark"),
        ("appearance/font_scale", "7"),
        ("appearance/font_scale", '"100"'),
        ("appearance/font_scale", "1e3"),
        ("appearance/reduced_motion", "1"),
        ("layout/cells", '["timeline"]'),
        ("layout/cells", "[1, 2, 3, 4, 5, 6]"),
        ("layout/splits", "[0, 500, 500]"),
        ("layout/right_width", "99999999999999999999"),
        ("files/recent", "{}"),
        ("files/recent", "[" * 100_000),
        ("window/geometry", "null"),
    ],
)
def test_value_that_does_not_fit_is_ignored_and_reported(key: str, value: str) -> None:
    settings = Settings(MemoryStore({key: value}))

    topic, _, name = key.partition("/")
    kind = type(getattr(settings, topic))
    assert getattr(getattr(settings, topic), name) == getattr(kind(), name)
    assert len(settings.problems) == 1
    assert key in settings.problems[0]


def test_unknown_key_is_reported() -> None:
    settings = Settings(MemoryStore({"future/thing": "1"}))

    assert "future/thing" in settings.problems[0]
    for key in ("appearance/reduced_motion", "lanes/ggmlviz"):
        known = Settings(MemoryStore({key: "true"}))
        assert new_statements("\n".join(settings.problems), "\n".join(known.problems))


def test_safe_mode_neither_reads_nor_writes() -> None:
    store = MemoryStore({"appearance/theme": '"light"'})

    settings = Settings(store, is_safe=True)
    settings.change("appearance", font_scale=150)

    assert settings.appearance.theme == "system"
    assert list(store.values) == ["appearance/theme"]


def test_recent_files_are_newest_first_and_few() -> None:
    settings = Settings(MemoryStore())
    for number in range(MAX_RECENT + 5):
        settings.add_recent(Path(f"/a/{number}.bin"))
    settings.add_recent(Path("/a/7.bin"))

    assert settings.files.recent[0] == "/a/7.bin"
    assert len(settings.files.recent) == MAX_RECENT
    assert settings.files.folder == "/a"
    settings.forget_recent("/a/7.bin")
    assert "/a/7.bin" not in settings.files.recent
    settings.forget_recent()
    assert settings.files.recent == ()


def test_shifts_of_many_files_are_read_back() -> None:
    store = MemoryStore()
    files = [Path(f"/a/{number}.jsonl") for number in range(MAX_RECENT + 5)]
    for file in files:
        Settings(store).set_shift(Path("/a"), file, "1ms")

    assert Settings(store).shifts_of(Path("/a")) == dict.fromkeys(files, "1ms")


def test_lane_state_is_kept_per_format() -> None:
    store = MemoryStore()
    state = LaneState(
        collapsed=frozenset({"Ops"}),
        hidden=frozenset({"layer:1"}),
        pinned=("token",),
        order=("thread:b", "thread:a"),
        heights=(("token", 2.0),),
    )

    Settings(store).set_lane_state("ggmlviz", state)

    assert Settings(store).lane_state("ggmlviz") == state
    assert Settings(store).lane_state("npu") == LaneState()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"collapsed": 3}', "NaN", '{"hidden": [1]}', "{" * 50_000,
     json.dumps({"collapsed": None, "hidden": [], "pinned": [], "order": [],
                 "heights": [["a", 1e308]]})],
)  # fmt: skip
def test_damaged_lane_state_counts_as_none(text: str) -> None:
    settings = Settings(MemoryStore({"lanes/x": text}))

    assert settings.lane_state("x") == LaneState()


def test_ini_file_keeps_values(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "ggscope.ini"
    store = IniStore(path)
    settings = Settings(store)
    settings.change("layout", name="grid", cells=tuple("abcdef"))
    settings.add_recent(Path("/tmp/ü, x; y=z %20 \\ @Variant.bin"))
    store.sync()

    again = Settings(IniStore(path))

    assert again.layout.cells == tuple("abcdef")
    assert again.layout.name == "grid"
    assert again.files.recent == settings.files.recent
    assert again.problems == []


_LINES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([
        b"[appearance]\ntheme=\"light\"\n", b"[layout]\nname=grid\nsplits=1, 2\n",
        b"[files]\nrecent=\"[\\\"a\\\"]\"\n", b"[%General]\nx=\\x", b"\xff\xfe\x00",
        b"[lanes]\nggmlviz=@ByteArray(\\0)\n", b"font_scale=@Point(1 2)\n",
    ]),
)  # fmt: skip


@hypothesis_settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(_LINES, max_size=8).map(b"\n".join))
@example(b"\x00" * 5000)
@example(b"[" * 5000)
def test_fuzzed_file_never_stops_the_start(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ggscope.ini"
    path.write_bytes(content)

    settings = Settings(IniStore(path))
    settings.change("appearance", font_scale=110)
    settings.lane_state("ggmlviz")

    assert settings.appearance.font_scale == 110
    assert settings.layout.name in ("dual", "grid", "single")
    assert len(settings.layout.cells) == len(Layout().cells)
