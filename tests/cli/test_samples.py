"""``ggscope samples``: where the bundled traces are, and copies of them."""

import json
from pathlib import Path

import pytest

from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_list_has_every_sample_with_all_of_its_bytes(run) -> None:
    rows = json.loads(run("samples", "--json").out)
    text = run("samples").out

    assert {row["name"] for row in rows} == {path.name for path in SAMPLES.iterdir()}
    assert sum(row["bytes"] for row in rows) == sum(
        map(len, contents(SAMPLES).values())
    )
    assert all(row["path"] in text for row in rows)


def test_copies_are_the_samples_and_open(run, tmp_path) -> None:
    folder = tmp_path / "new" / "samples"

    result = run("samples", folder, "--json")

    assert result.code == 0
    assert contents(folder) == contents(SAMPLES)
    files = json.loads(result.out)["files"]
    assert sorted(files) == sorted(str(folder / name) for name in contents(SAMPLES))
    assert run("info", folder / "moe-experiment").code == 0


@pytest.mark.parametrize("name", ["llama.ggmlviz", "moe-experiment/graphs/x.json"])
def test_files_that_are_there_are_replaced_only_with_force(run, tmp_path, name) -> None:
    name = name.replace("x.json", "token-00000.json")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"mine")

    refused = run("samples", tmp_path)

    assert refused.code == 1
    assert "--force" in refused.err
    assert contents(tmp_path) == {name: b"mine"}  # none of the others either

    assert run("samples", tmp_path, "--force").code == 0
    assert contents(tmp_path) == contents(SAMPLES)


def test_folder_that_is_a_file_is_refused(run, tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")

    result = run("samples", path)

    assert result.code == 1
    assert str(path) in result.err
    assert path.read_bytes() == b""
