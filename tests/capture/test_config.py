"""Settings: four sources, one order, and errors that name the place."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ggscope_capture import config
from ggscope_capture.__main__ import main

GGML_VIZ = {
    "OUTPUT", "VERBOSE", "DISABLE", "MAX_EVENTS", "OP_TIMING", "MEMORY_TRACKING",
    "THREAD_TRACKING", "TENSOR_NAMES", "FLUSH_INTERVAL", "BUFFER_SIZE",
}  # fmt: skip


def written(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def origins(found: config.Configuration) -> dict[str, config.Origin]:
    return {origin.setting.name: origin for origin in found.origins}


def test_settings_and_their_table_name_the_same_things() -> None:
    names = [field.name for field in dataclasses.fields(config.Settings)]

    assert names == [setting.name for setting in config.SETTINGS]


def test_all_names_of_ggml_viz_are_known() -> None:
    known = {setting.variable.removeprefix("!") for setting in config.SETTINGS}

    assert {f"GGML_VIZ_{name}" for name in GGML_VIZ} <= known


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
    group, name = setting.key.split(".")
    file = written(tmp_path / "c.json", {group: {name: in_file}})
    variable = {setting.variable.removeprefix("!"): in_environment}
    flag = {setting.name: by_flag}

    said = [
        origins(config.resolve(*sources))[setting.name]
        for sources in (
            ({}, None, {}), ({}, None, variable), ({}, file, variable),
            (flag, file, variable),
        )
    ]  # fmt: skip

    assert [origin.source for origin in said] == [
        "default", setting.variable.removeprefix("!"), f"{file}: {setting.key}",
        f"--{setting.flag}",
    ]  # fmt: skip
    assert said[0].value == setting.default
    assert said[2].value == setting.read(in_file)
    assert said[3].value == setting.read(by_flag)
    assert len(said[3].overruled) == 2


def test_disable_means_not_enabled() -> None:
    found = config.resolve({}, None, {"GGML_VIZ_DISABLE": "1"})

    assert found.settings.enabled is False


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

    found = config.resolve({}, written(tmp_path / "viz.json", document), {})

    assert found.settings.max_records == 50000
    assert found.settings.ggmlviz == "llama.ggmlviz"
    assert found.settings.log_level == "INFO"
    assert len(found.notices) == 5  # told, not hidden: what has no use here


def test_unknown_keys_are_told_with_what_may_be_meant(tmp_path: Path) -> None:
    document = {"instrumentation": {"max_event": 5}, "loging": {}}

    found = config.resolve({}, written(tmp_path / "c.json", document), {})

    assert "did you mean instrumentation.max_events" in found.notices[0]
    assert "did you mean logging" in found.notices[1]


def test_file_is_found_by_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})

    found = config.resolve({}, None, {"GGSCOPE_CAPTURE_CONFIG": str(path)})

    assert found.settings.sample_every == 3


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\xff", "is not JSON"),
        ([], "no object"),
        ({"logging": 1}, "logging must be an object"),
        ('{"ui": {}, "ui": {}}', "says ui twice"),
        ({"instrumentation": {"max_events": -1}}, "instrumentation.max_events is -1"),
        ({"instrumentation": {"max_events": True}}, "whole number"),
        ({"instrumentation": {"max_events": 1.5}}, "whole number"),
        ({"instrumentation": {"ring_records": 3}}, "a power of two"),
        ({"instrumentation": {"enabled": "perhaps"}}, "true or false"),
        ({"instrumentation": {"layers": [[1]]}}, "a list of names or numbers"),
        ({"instrumentation": {"layers": "4-1"}}, "layers from 0"),
        ({"instrumentation": {"op_types_to_trace": ["ADD", "!MUL"]}}, "not both"),
        ({"logging": {"level": "loud"}}, "one of DEBUG"),
        ({"output": {"filename": None}}, "a text"),
        ({"output": {"filename": "x" * 99}}, ""),
    ],
)
def test_wrong_files_are_refused_by_place(
    document: object, told: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "c.json", document)
    if not told:
        config.resolve({}, path, {})
        return

    with pytest.raises(config.ConfigError, match=told) as error:
        config.resolve({}, path, {})

    assert str(path) in str(error.value)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match="No such file"):
        config.resolve({}, tmp_path / "none.json", {})


def test_wrong_variables_and_flags_are_named() -> None:
    with pytest.raises(config.ConfigError, match='GGML_VIZ_BUFFER_SIZE is "1000"'):
        config.resolve({}, None, {"GGML_VIZ_BUFFER_SIZE": "1000"})
    with pytest.raises(config.ConfigError, match='--sample is "0"'):
        config.resolve({"sample_every": "0"}, None, {})


def test_lists_and_sizes_are_read() -> None:
    flags = {"layers": "0, 4-6", "ops": "ggml_op_mul_mat,add", "ring_records": "64k"}

    found = config.resolve(flags, None, {}).settings

    assert found.layers == (0, 4, 5, 6)
    assert found.ops == ("MUL_MAT", "ADD")
    assert found.ring_records == 65536


def test_command_explains_origins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "c.json", {"instrumentation": {"sample_every": 3}})
    monkeypatch.setenv("GGSCOPE_CAPTURE_SAMPLE", "5")

    code = main(["config", "--explain", "--config", str(path), "--layers", "1-2"])

    told = capsys.readouterr().out
    assert code == 0
    assert f"sample_every = 3   ({path}: instrumentation.sample_every)" in told
    assert "overruled: GGSCOPE_CAPTURE_SAMPLE says 5" in told
    assert "layers = 1,2   (--layers)" in told
    assert "enabled = true   (default)" in told


def test_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "--json", "--no-enabled"])

    told = json.loads(capsys.readouterr().out)

    assert told["enabled"] == {"value": False, "from": "--enabled", "overruled": []}
