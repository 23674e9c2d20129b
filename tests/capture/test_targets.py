"""Finding llama.cpp, installing it unmodified, and running it without a trace."""

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ggscope_capture import driver, targets


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GGSCOPE_CAPTURE_HOME", str(tmp_path / "capture"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_programs_on_the_path_and_in_checkouts_are_found(own_home: Path) -> None:
    server = program(own_home / "bin", "llama-server")
    simple = program(own_home / "llama.cpp" / "build" / "bin", "llama-completion")
    (own_home / "bin" / "llama-cli").write_text("not executable")

    result = targets.find()

    here = [target.path for target in result if own_home in target.path.parents]
    assert here == [simple, server]  # the better one for a first trace comes first


def test_a_program_that_is_linked_twice_is_reported_once(own_home: Path) -> None:
    path = program(own_home / "llama.cpp" / "bin", "llama-server")
    (own_home / "bin").mkdir()
    (own_home / "bin" / "llama-server").symlink_to(path)

    here = [t for t in targets.find() if own_home in t.path.parents]

    assert [target.origin for target in here] == ["PATH"]


def test_without_npm_the_reason_is_reported(own_home: Path) -> None:
    with pytest.raises(targets.InstallError, match="npm is not installed"):
        targets.install("npm")


def test_without_cmake_nothing_is_fetched_to_be_built(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_home / "cache"))

    with pytest.raises(targets.InstallError, match="cmake is not installed"):
        targets.install("source")

    assert not targets.cache().exists()


def test_what_was_built_is_found_and_taken(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_home / "cache"))
    folder = targets.cache() / "shared" / "bin"
    paths = [program(folder, name) for name in targets.BUILT]

    here = [t for t in targets.find() if own_home in t.path.parents]

    assert [(t.path, t.origin) for t in here] == [(p, "source") for p in paths]
    assert targets.install("source") == here[0]


@pytest.mark.parametrize("package", ["npm_llama", "pypi_llama"])
def test_unmodified_llama_continues_a_prompt(
    package: str,
    request: pytest.FixtureRequest,
    tiny_models: dict[str, Path],
    tmp_path: Path,
) -> None:
    target = request.getfixturevalue(package)
    command = target.command(tiny_models["nano-moe"], "sun and moon", tokens=6)
    facts = tmp_path / "facts.json"

    done = subprocess.run(
        [*command, "--facts", str(facts)], capture_output=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip

    data = json.loads(facts.read_bytes())
    assert len(data["steps"][0]) == 6
    assert data["steps"][0][0] == data["prompt"]
    assert done.stdout.decode().strip().isprintable()


def test_a_pace_waits_before_each_token_but_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    logits = (ctypes.c_float * 2)(0, 1)
    run = object.__new__(driver.Run)
    run._library = SimpleNamespace(
        llama_model_get_vocab=lambda model: 0,
        llama_vocab_n_tokens=lambda vocabulary: 2,
        llama_vocab_is_eog=lambda vocabulary, token: False,
        llama_get_logits_ith=lambda context, i: ctypes.addressof(logits),
    )
    run._model = run._context = 0
    decoded: list[list[int]] = []
    monkeypatch.setattr(run, "_decode", decoded.append)

    run.generate([5, 6], 4, show=False, pace=0.1)

    assert decoded == [[5, 6], [1], [1], [1]]
    assert slept[0] == 0
    assert all(0 < seconds <= 10 for seconds in slept[1:])
    slept.clear()
    run.generate([5], 3, show=False)
    assert slept == [0, 0, 0]
