"""Settings of a start: flags, file, environment; ``ggscope config``; log lines."""

import json
import logging
import os
import re
from pathlib import Path

import pytest

from ggscope import cli
from ggscope.cli.arguments import parse
from ggscope.cli.config import apply, reloader
from ggscope.cli.window import follow_where_configured
from ggscope.gui.single_instance.client import make_request
from ggscope.live import open_source
from ggscope.live.options import OPTIONS
from ring_writer import Writer
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "llama-demo.ggmlviz"
SEED = {
    "cli": {
        "verbose": True,
        "live_mode": True,
        "port": 8081,
        "polling_interval_ms": 75,
    },
    "instrumentation": {
        "max_events": 40000,
        "enable_op_timing": True,
        "enable_memory_tracking": True,
        "output_file": "whisper_trace.ggmlviz",
    },
    "logging": {
        "level": "DEBUG",
        "enable_timestamps": True,
        "enable_thread_id": True,
        "prefix": "[WHISPER_DEMO]",
    },
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("GGML_VIZ_", "GGSCOPE_CONFIG", "GGSCOPE_CAPTURE_")):
            monkeypatch.delenv(name)


def written(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_every_key_of_the_file_is_listed_with_its_origin(run, tmp_path):
    path = written(tmp_path / "config.json", SEED)

    result = run("config", "--json", "--config", path)

    data = json.loads(result.out)
    of_file = {
        row["from"].removeprefix(f"{path}: "): row["value"]
        for row in data.values()
        if row["from"].startswith(str(path))
    }
    assert result.code == 0
    assert of_file == {
        f"{group}.{name}": value
        for group, body in SEED.items()
        for name, value in body.items()
        if name != "port"
    }
    assert "cli.port is not used" in result.err


@pytest.mark.parametrize(
    ("name", "flags", "key", "variable", "values"),
    [
        ("log_level", "--log-level", "logging.level", "GGML_VIZ_LOG_LEVEL",
         ("DEBUG", "INFO", "ERROR", "WARN")),
        ("log_prefix", "--log-prefix", "logging.prefix", "GGML_VIZ_LOG_PREFIX",
         ("a", "b", "c", "")),
        ("log_timestamp", "--log-timestamp", "logging.enable_timestamps",
         "GGML_VIZ_LOG_TIMESTAMP", (True, False, True, False)),
        ("log_thread_id", "--log-thread-id", "logging.enable_thread_id",
         "GGML_VIZ_LOG_THREAD_ID", (True, False, True, False)),
        ("poll_interval_ms", "--poll-interval", "cli.polling_interval_ms",
         "GGSCOPE_POLL_INTERVAL", (1, 2, 3, 0)),
        ("verbose", "-v", "cli.verbose", "GGML_VIZ_VERBOSE",
         (True, False, True, False)),
        ("live", "--live", "cli.live_mode", "GGSCOPE_LIVE",
         (True, False, True, False)),
    ],
)  # fmt: skip
def test_flag_beats_file_beats_environment_beats_default(
    run, tmp_path, monkeypatch, name, flags, key, variable, values
):
    group, leaf = key.split(".")
    path = written(tmp_path / "c.json", {group: {leaf: values[1]}})
    value = () if isinstance(values[0], bool) else (values[0],)

    def row(*text: object) -> tuple[object, str]:
        data = json.loads(run("config", "--json", *text).out)[name]
        return data["value"], data["from"]

    default = row()
    monkeypatch.setenv(variable, str(values[2]))

    assert default == (values[3], "default")
    assert row() == (values[2], variable)
    assert row("-c", path) == (values[1], f"{path}: {key}")
    assert row("-c", path, flags, *value) == (values[0], flags.replace(
        "-v", "--verbose") if flags == "-v" else flags)  # fmt: skip


def test_settings_of_the_window_are_listed_too(run, tmp_path, monkeypatch):
    folder = tmp_path / "ggscope"
    folder.mkdir()
    (folder / "ggscope.ini").write_text('[appearance]\ntheme="\\"light\\""\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    data = json.loads(run("config", "--json").out)

    assert data["appearance.theme"]["value"] == "light"
    assert data["appearance.theme"]["from"] == str(folder / "ggscope.ini")
    assert data["appearance.font_scale"]["from"] == "default"
    assert "window.geometry" not in data


@pytest.mark.parametrize("width", [80, 100, 180])
@pytest.mark.parametrize("arguments", [["config"], ["config", "--explain"]])
def test_table_fits_the_terminal(run, tmp_path, monkeypatch, width, arguments):
    monkeypatch.setenv("COLUMNS", str(width))
    path = written(tmp_path / "c.json", SEED)

    _, *lines = run(*arguments, "-c", path).out.splitlines()

    assert max(map(len, lines)) <= width
    assert lines[0].split()[0] == "setting"


def test_wrong_value_is_reported_and_the_command_goes_on(run, tmp_path):
    document = {"logging": {"level": "loud"}, "cli": {"polling_interval_ms": 9}}
    path = written(tmp_path / "c.json", document | {"colour": {}})

    result = run("info", SAMPLE, "--config", path)
    listed = run("config", "--json", "--config", path)
    usage = run("live", "x", "--poll-interval", "often")

    assert result.code == 0
    assert "logging.level" in result.err
    assert "unknown key colour" in result.err
    assert OPTIONS.poll_s == 0.009
    assert listed.code == 1
    assert json.loads(listed.out)["poll_interval_ms"]["value"] == 9
    assert usage.code == 2


@pytest.mark.parametrize(
    ("level", "is_logged"),
    [("DEBUG", True), ("debug", True), ("Warn", False), ("ERROR", False)],
)
def test_levels_are_taken_in_any_case(shell, level, is_logged):
    result = shell("info", SAMPLE, "--log-level", level)

    assert result.code == 0
    assert ("DEBUG ggscope." in result.err) is is_logged


def test_log_lines_have_what_the_file_says(shell, tmp_path):
    path = written(tmp_path / "config.json", {"logging": SEED["logging"]})

    lines = shell("info", SAMPLE, "--config", path).err.splitlines()

    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[WHISPER_DEMO\]: \[\d+\] "
    form += r"(DEBUG|INFO) ggscope\.\S+: .+"
    assert lines
    assert all(re.fullmatch(form, line) for line in lines)


def test_environment_of_ggml_viz_sets_log_lines(shell):
    variables = {"GGML_VIZ_LOG_LEVEL": "debug", "GGML_VIZ_LOG_PREFIX": "mine"}

    lines = shell("info", SAMPLE, **variables).err.splitlines()

    assert lines
    assert all(re.match(r"mine: (DEBUG|INFO) ggscope\.", line) for line in lines)


def test_changed_file_counts_while_a_program_is_followed(tmp_path, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    path = written(tmp_path / "c.json", {"cli": {"polling_interval_ms": 100}})
    arguments = parse(["live", "--config", str(path)])
    settings = reloader(arguments)
    apply(settings.current)
    before = OPTIONS.poll_s, root.level

    written(path, SEED)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    anew = settings.poll()
    apply(anew)

    assert before == (0.1, logging.WARNING)
    assert (OPTIONS.poll_s, root.level) == (0.075, logging.DEBUG)
    assert OPTIONS.output == "whisper_trace.ggmlviz"
    record = logging.LogRecord("x", logging.INFO, "", 0, "words", None, None)
    line = root.handlers[0].format(record)
    assert re.fullmatch(r"\S+ \S+ \[WHISPER_DEMO\]: \[\d+\] INFO x: words", line)
    assert [n.split()[0] for n in anew.notices[-1:]] == ["live"]  # of the next start


def opened(*text: str) -> tuple[object, list[str]]:
    arguments = parse([*text])
    cli.apply_options(arguments)
    follow_where_configured(arguments)
    return arguments.live, list(map(str, arguments.files))


def test_live_mode_of_the_file_follows_what_is_named(tmp_path):
    path = str(written(tmp_path / "c.json", SEED))
    still = str(written(tmp_path / "d.json", {"cli": {"live_mode": False}}))

    assert opened("--config", path) == ("", [])
    assert opened("--config", path, "t.ggmlviz") == ("t.ggmlviz", [])
    assert opened("--config", path, "a.bin", "b.bin") == (None, ["a.bin", "b.bin"])
    assert opened("--config", still, "t.ggmlviz") == (None, ["t.ggmlviz"])
    assert opened("--config", still, "--live") == ("", [])


def test_command_lines_of_ggml_viz_run(tmp_path):
    """As its README calls it: the option first, what is followed last."""
    arguments = ["--live", "--no-hook", "--verbose", "t.ggmlviz"]

    assert opened(*arguments) == ("t.ggmlviz", [])
    assert opened("--live", "t.ggmlviz", "--no-hook", "-v") == ("t.ggmlviz", [])
    assert opened("--verbose", "t.ggmlviz") == (None, ["t.ggmlviz"])
    assert (
        make_request([], parse(["--config", "c.json"])) is None
    )  # a window of its own


def test_named_stream_is_followed_where_no_program_runs(
    run, tmp_path, monkeypatch
):  # fmt: skip
    stream = tmp_path / "t.ggmlviz"
    monkeypatch.delenv(open_source.RING_VARIABLE, raising=False)
    monkeypatch.setenv(open_source.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(open_source, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(open_source.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("GGML_VIZ_OUTPUT", str(stream))

    waiting = run("live", "--seconds", "0.1")
    nothing = open_source.path_to_follow(None)
    stream.write_bytes(SAMPLE.read_bytes())
    result = run("live", "--json", "--seconds", "1")
    alone = open_source.path_to_follow(None)
    writer = Writer(tmp_path / "ggscope-1-00")
    with_ring = open_source.path_to_follow(None)
    writer.close()

    assert waiting.code == 0
    assert f"{stream} (GGML_VIZ_OUTPUT)" in waiting.err
    assert (nothing, alone, with_ring) == (None, stream, writer.path)
    assert json.loads(result.out.splitlines()[-1])["records"] == 36
