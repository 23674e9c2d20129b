"""Settings: four sources, one order, and errors that name the place."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ggscope_capture import config
from ggscope_capture.__main__ import main
from ggscope_capture.table import table

GGML_VIZ = {
    "OUTPUT", "VERBOSE", "DISABLE", "MAX_EVENTS", "OP_TIMING", "MEMORY_TRACKING",
    "THREAD_TRACKING", "TENSOR_NAMES", "FLUSH_INTERVAL", "BUFFER_SIZE",
}  # fmt: skip
SEED = {
    "cli": {
        "verbose": True, "live_mode": True, "port": 8081, "polling_interval_ms": 75,
    },
    "instrumentation": {
        "max_events": 40000, "enable_op_timing": False,
        "enable_memory_tracking": False, "output_file": "whisper_trace.ggmlviz",
    },
    "logging": {
        "level": "DEBUG", "enable_timestamps": True, "enable_thread_id": True,
        "prefix": "[WHISPER_DEMO]",
    },
}  # fmt: skip
"""The configuration in ggml-viz's documents: twelve keys, one of a web server."""


def written(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_settings_and_their_table_name_the_same_things() -> None:
    names = [field.name for field in dataclasses.fields(config.Settings)]

    assert names == [setting.name for setting in config.SETTINGS]


def test_all_names_of_ggml_viz_are_known() -> None:
    known = {setting.variable.removeprefix("!") for setting in config.SETTINGS}
    of_logs = {f"LOG_{name}" for name in ("LEVEL", "TIMESTAMP", "THREAD_ID", "PREFIX")}

    assert {f"GGML_VIZ_{name}" for name in GGML_VIZ | of_logs} <= known


# A value for each kind of setting, as text: for the file, the environment and the flag.
VALUES: dict[type, tuple[Any, Any, Any]] = {
    bool: (False, "1", True),
    int: (4, "8", "16"),
    str: ("file", "environment", "flag"),
    tuple: ("1", "2", "3"),
}


@pytest.mark.parametrize("setting", config.SETTINGS, ids=lambda s: s.name)
def test_flag_beats_file_beats_environment_beats_default(
    setting: config.Setting, tmp_path: Path
) -> None:
    in_file, in_environment, by_flag = VALUES[type(setting.default)]
    if setting.name == "log_level":
        in_file, in_environment, by_flag = "INFO", "ERROR", "DEBUG"
    if setting.name == "ops":
        in_file, in_environment, by_flag = "ADD", "MUL", "MUL_MAT"
    group, name = setting.key.split(".")
    file = written(tmp_path / "c.json", {group: {name: in_file}})
    variable = {setting.variable.removeprefix("!"): in_environment}
    flag = {setting.name: by_flag}

    origins = [
        config.resolve(*sources).origin(setting.name)
        for sources in (
            ({}, None, {}), ({}, None, variable), ({}, file, variable),
            (flag, file, variable),
        )
    ]  # fmt: skip

    assert [origin.source for origin in origins] == [
        "default", setting.variable.removeprefix("!"), f"{file}: {setting.key}",
        f"--{setting.flag}",
    ]  # fmt: skip
    assert origins[0].value == setting.default
    assert origins[2].value == setting.read(in_file)
    assert origins[3].value == setting.read(by_flag)
    assert len(origins[3].overruled) == 2


def test_disable_means_not_enabled() -> None:
    settings = config.resolve({}, None, {"GGML_VIZ_DISABLE": "1"})

    assert settings.settings.enabled is False


def test_configuration_of_ggml_viz_is_understood(tmp_path: Path) -> None:
    document = {
        "schema_version": 1,
        "instrumentation": {
            "enable_op_timing": True, "enable_memory_tracking": True,
            "record_tensor_names": True, "max_events": 50000,
            "op_types_to_trace": [], "backends_to_trace": ["cpu", "metal"],
        },
        "output": {
            "filename": "llama.ggmlviz", "write_to_file": True, "flush_interval": 1024,
        },
        "logging": {
            "level": "info", "timestamp": True, "thread_id": False, "prefix": "[DEMO]",
        },
        "ui": {"live_mode": True, "poll_interval_ms": 50, "max_live_events": 25000},
    }  # fmt: skip

    settings = config.resolve({}, written(tmp_path / "viz.json", document), {})

    assert settings.settings.max_records == 50000
    assert settings.settings.ggmlviz == "llama.ggmlviz"
    assert settings.settings.log_level == "INFO"
    assert (settings.settings.live, settings.settings.poll_interval_ms) == (True, 50)
    assert len(settings.notices) == 3  # listed, not hidden: what has no use here


def test_all_keys_of_its_documents_count(tmp_path: Path) -> None:
    path = written(tmp_path / "config.json", SEED)

    result = config.resolve({}, path, {})

    settings = result.settings
    assert (settings.verbose, settings.live) == (True, True)
    assert settings.poll_interval_ms == 75
    assert settings.max_records == 40000
    assert (settings.op_timing, settings.memory_tracking) == (False, False)
    assert settings.ggmlviz == "whisper_trace.ggmlviz"
    assert settings.log_level == result.least_level == "DEBUG"
    assert (settings.log_timestamp, settings.log_thread_id) == (True, True)
    assert settings.log_prefix == "[WHISPER_DEMO]"
    assert result.problems == ()
    assert [n.partition(" is not used")[0] for n in result.notices] == [
        f"{path}: cli.port"
    ]
    names = {o.setting.name for o in result.origins if o.kind is config.Source.FILE}
    assert len(names) == 11


def test_unknown_keys_are_reported_with_what_may_be_meant(tmp_path: Path) -> None:
    document = {"instrumentation": {"max_event": 5, "colour": 1}, "loging": {}}
    document |= {"logging": {"live_mode": True}}

    settings = config.resolve({}, written(tmp_path / "c.json", document), {})

    values = [notice.partition("unknown key ")[2] for notice in settings.notices]
    assert values == [
        "instrumentation.max_event; did you mean instrumentation.max_events",
        "instrumentation.colour",  # no key is like it
        "loging; did you mean logging",
        "logging.live_mode; did you mean cli.live_mode",
    ]


def test_of_two_keys_of_one_setting_ours_counts(tmp_path: Path) -> None:
    document = {
        "output": {"filename": "a.ggmlviz"},
        "instrumentation": {"output_file": "b.ggmlviz"},
    }

    settings = config.resolve({}, written(tmp_path / "c.json", document), {})
    turned = dict(reversed(document.items()))
    other = config.resolve({}, written(tmp_path / "d.json", turned), {})

    assert settings.settings.ggmlviz == other.settings.ggmlviz == "a.ggmlviz"
    assert len(settings.notices) == len(other.notices) == 1


def test_file_is_found_by_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})

    settings = config.resolve({}, None, {"GGSCOPE_CAPTURE_CONFIG": str(path)})

    assert settings.settings.sample_every == 3


@pytest.mark.parametrize("variable", config.CONFIG_VARIABLES)
def test_file_is_found_by_any_of_its_variables(variable: str, tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})

    assert config.resolve({}, None, {variable: str(path)}).settings.sample_every == 3


@pytest.mark.parametrize(
    "document", ["{", "[" * 100_000, "\xff", "[]", " " * (2 << 20)]
)
def test_file_that_cannot_be_read_says_nothing(document: str, tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", document)

    settings = config.resolve({"layers": "2"}, path, {"GGML_VIZ_MAX_EVENTS": "5"})

    assert not settings.is_read
    assert len(settings.problems) == 1
    assert settings.problems[0].startswith(str(path))
    assert (settings.settings.layers, settings.settings.max_records) == ((2,), 5)


def test_missing_file_is_a_problem(tmp_path: Path) -> None:
    settings = config.resolve({}, tmp_path / "none.json", {})

    assert settings.problems == (
        f"{tmp_path / 'none.json'} cannot be read: No such file or directory",
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"logging": 1}, "logging must be an object"),
        ('{"instrumentation": {"layers": 3}, "ui": {}, "ui": {}}', "has ui twice"),
        ({"instrumentation": {"max_events": -1}}, "instrumentation.max_events is -1"),
        ({"instrumentation": {"max_events": True}}, "whole number"),
        ({"instrumentation": {"max_events": 1.5}}, "whole number"),
        ({"instrumentation": {"ring_records": 3}}, "a power of two"),
        ({"instrumentation": {"enabled": "perhaps"}}, "true or false"),
        ({"instrumentation": {"threads": [[1]]}}, "a list of names or numbers"),
        ({"instrumentation": {"threads": "4-1"}}, "threads from 0"),
        ({"instrumentation": {"op_types_to_trace": ["ADD", "!MUL"]}}, "not both"),
        ({"instrumentation": {"op_types_to_trace": [29]}}, "names of ops"),
        ({"logging": {"level": "loud"}}, "one of DEBUG"),
        ({"output": {"filename": None}}, "a text"),
    ],
)
def test_wrong_value_is_reported_and_the_others_count(
    document: Any, message: str, tmp_path: Path
) -> None:
    if isinstance(document, dict):
        document = {
            **document,
            "instrumentation": {"layers": 3, **document.get("instrumentation", {})},
            "cli": {"verbose": True},
        }
    path = written(tmp_path / "c.json", document)

    settings = config.resolve({}, path, {})

    (problem,) = settings.problems
    assert str(path) in problem
    assert message in problem
    assert settings.is_read
    assert settings.settings.layers == (3,)
    assert settings.settings.verbose is isinstance(document, dict)


def test_of_a_wrong_value_the_next_source_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"max_events": "many"}})

    settings = config.resolve({}, path, {"GGML_VIZ_MAX_EVENTS": "7"})
    wrong = config.resolve({}, None, {"GGML_VIZ_BUFFER_SIZE": "1000"})

    assert settings.origin("max_records").source == "GGML_VIZ_MAX_EVENTS"
    assert settings.settings.max_records == 7
    assert settings.wrong == {"max_records"}
    assert wrong.settings.ring_records == 0
    assert 'GGML_VIZ_BUFFER_SIZE is "1000"' in wrong.problems[0]


def test_wrong_flag_is_an_error() -> None:
    with pytest.raises(config.ConfigError, match='--sample is "0"'):
        config.resolve({"sample_every": "0"}, None, {})


@pytest.mark.parametrize(
    ("flags", "document", "environment", "level"),
    [
        ({}, {}, {}, "WARN"),
        ({"verbose": True}, {}, {}, "INFO"),
        ({"verbose": True}, {"logging": {"level": "error"}}, {}, "INFO"),
        ({"verbose": True}, {"logging": {"level": "debug"}}, {}, "DEBUG"),
        ({"verbose": True, "log_level": "Error"}, {}, {}, "ERROR"),
        ({"log_level": "warning"}, {"cli": {"verbose": True}}, {}, "WARN"),
        ({}, {"cli": {"verbose": True}, "logging": {"level": "DEBUG"}}, {}, "DEBUG"),
        ({}, {"cli": {"verbose": True}}, {"GGML_VIZ_LOG_LEVEL": "FATAL"}, "INFO"),
        ({}, {"logging": {"level": "critical"}}, {"GGML_VIZ_VERBOSE": "1"}, "FATAL"),
    ],
)
def test_level_that_is_logged(
    flags: dict[str, Any], document: object, environment: dict[str, str], level: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    path = written(tmp_path / "c.json", document)

    assert config.resolve(flags, path, environment).least_level == level


def test_lists_and_sizes_are_read() -> None:
    flags = {"layers": "0, 4-6", "ops": "ggml_op_mul_mat,add", "ring_records": "64k"}

    settings = config.resolve(flags, None, {}).settings

    assert settings.layers == (0, 4, 5, 6)
    assert settings.ops == ("MUL_MAT", "ADD")
    assert settings.ring_records == 65536


def test_command_explains_origins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})
    monkeypatch.setenv("GGSCOPE_CAPTURE_SAMPLE", "5")

    code = main(["config", "--json", "--config", str(path), "--layers", "1-2"])

    data = json.loads(capsys.readouterr().out)
    assert code == 0
    assert data["sample_every"] == {
        "value": 3, "from": f"{path}: instrumentation.sample_every",
        "overruled": ["GGSCOPE_CAPTURE_SAMPLE is 5"], "default": 1,
        "flag": "--sample", "keys": ["instrumentation.sample_every"],
        "variable": "GGSCOPE_CAPTURE_SAMPLE", "used_by": "tracer", "reloads": True,
        "help": "trace every N-th graph only",
    }  # fmt: skip
    assert (data["layers"]["value"], data["layers"]["from"]) == ([1, 2], "--layers")
    assert data["enabled"]["from"] == "default"


@pytest.mark.parametrize("width", [72, 80, 110, 200])
@pytest.mark.parametrize("arguments", [["config"], ["config", "--explain"]])
def test_table_fits_the_terminal(
    arguments: list[str], width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(width))
    path = written(tmp_path / ("c" * 60 + ".json"), SEED)

    assert main([*arguments, "--config", str(path)]) == 0

    place, *lines = capsys.readouterr().out.splitlines()
    assert place == f"file: {path}"
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == ["setting", *(setting.name for setting in config.SETTINGS)]


def test_cells_that_are_too_long_continue_below() -> None:
    lines = table(("a", "b"), [("x", "one/two.three four")], 11, (0, 4))

    assert lines == ["a  b", "x  one/two.", "   three", "   four"]


def test_command_shows_what_is_wrong_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"logging": {"level": "loud", "prefix": "mine"}}
    path = written(tmp_path / "c.json", document)

    code = main(["config", "--json", "--config", str(path)])
    printed = capsys.readouterr()

    assert code == 1
    assert json.loads(printed.out)["log_prefix"]["value"] == "mine"
    assert "logging.level" in printed.err
    assert main(["config", "--sample", "none"]) == 2


def reloading(path: Path, **flags: str) -> config.Reloader:
    return config.Reloader(lambda: config.resolve(flags, path, {}, users=config.TRACER))


def rewritten(path: Path, document: object) -> None:
    """Write a file anew; its time differs whatever the clock's steps are."""
    before = path.stat()
    written(path, document)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def test_changed_file_changes_what_may_change_while_it_runs(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"cli": {"verbose": False}})
    reloader = reloading(path, max_records="9")
    assert reloader.poll() is None

    rewritten(path, SEED)
    anew = reloader.poll()

    assert anew is not None
    settings = anew.settings
    assert settings.max_records == 9  # the flag goes before the file
    assert (settings.op_timing, settings.memory_tracking) == (False, False)
    assert settings.ggmlviz == "whisper_trace.ggmlviz"
    assert anew.least_level == "DEBUG"
    assert settings.log_prefix == "[WHISPER_DEMO]"
    assert (settings.log_timestamp, settings.log_thread_id) == (True, True)
    assert reloader.poll() is None


def test_wrong_value_in_a_changed_file_leaves_the_old_one(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})
    reloader = reloading(path)

    instrumentation = {"sample_every": "x", "layers": "2", "ring_records": 64}
    rewritten(path, {"instrumentation": instrumentation})
    anew = reloader.poll()
    rewritten(path, "{ half written")
    torn = reloader.poll()
    path.unlink()

    assert anew is not None
    assert torn is not None
    settings = anew.settings
    assert (settings.sample_every, settings.layers) == (3, (2,))
    assert settings.ring_records == 0  # of the next run
    assert [len(anew.problems), len(anew.notices)] == [1, 1]
    assert torn.settings == settings
    assert "is not JSON" in torn.problems[0]
    assert reloader.poll() is None  # an editor may put it there again


def test_each_program_checks_its_own_settings(tmp_path: Path) -> None:
    document = {"cli": {"polling_interval_ms": "x"}, "instrumentation": {"layers": "x"}}
    path = written(tmp_path / "c.json", document)

    of_tracer = config.resolve({}, path, {}, users=config.TRACER)
    of_viewer = config.resolve({}, path, {}, users=config.VIEWER)

    assert of_tracer.wrong == {"layers"}
    assert of_viewer.wrong == {"poll_interval_ms"}
