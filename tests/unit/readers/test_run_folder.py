"""Which runs a folder has: recordings, token files, experiments, and foreign files."""

import shutil
from pathlib import Path

import pytest

import log_files
import recordings
from ggscope.readers.discovery import RunFolder, run_folder, runs_in
from session_files import write_experiment
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def paths(run_folder: RunFolder) -> list[str]:
    return [
        run.path.relative_to(run_folder.folder).as_posix() for run in run_folder.runs
    ]


def test_recordings_of_a_folder_are_a_run_each(tmp_path) -> None:
    for name in ("t10", "t2", "t1"):
        recordings.recording(tmp_path, name)

    folder = run_folder(tmp_path)

    assert paths(folder) == ["t1.bin", "t2.bin", "t10.bin"]
    assert [run.sidecar and run.sidecar.path for run in folder.runs] == [
        tmp_path / f"{name}.json" for name in ("t1", "t2", "t10")
    ]
    assert folder.has_several
    assert folder.skipped == ()


def test_one_recording_is_no_folder_of_runs(tmp_path) -> None:
    recordings.recording(tmp_path)

    folder = run_folder(tmp_path)

    assert paths(folder) == ["run.bin"]
    assert not folder.has_several


def test_tokens_and_side_files_of_an_experiment_are_one_run(tmp_path) -> None:
    write_experiment(tmp_path, tokens=3)

    folder = run_folder(tmp_path)

    assert paths(folder) == ["."]
    assert len(folder.runs[0].traces) == 3
    assert not folder.has_several


def test_experiments_in_subfolders_are_runs(tmp_path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        write_experiment(tmp_path / name, tokens=2)
    recordings.recording(tmp_path, "mine")

    folder = run_folder(tmp_path)

    assert paths(folder) == ["mine.bin", "new", "old"]


def test_traces_of_several_formats_are_one_run(tmp_path) -> None:
    sample = SAMPLES / "llama-demo.ggmlviz"
    if not sample.exists():
        pytest.skip("the samples have not been made")
    shutil.copy(sample, tmp_path)
    recordings.recording(tmp_path)

    folder = run_folder(tmp_path)

    assert paths(folder) == ["."]
    assert {trace.reader_id for trace in folder.runs[0].traces} == {
        "ggmlviz", "tensor-access"
    }  # fmt: skip


def test_foreign_files_are_named_and_empty_folders_have_no_run(tmp_path) -> None:
    assert run_folder(tmp_path).runs == ()

    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "empty.bin").write_bytes(b"")
    folder = run_folder(tmp_path)

    assert folder.runs == ()
    assert {skipped.path.name for skipped in folder.skipped} == {
        "notes.txt", "empty.bin"
    }  # fmt: skip


def test_recording_of_graphs_alone_is_a_run_though_it_has_no_records(tmp_path) -> None:
    recordings.recording(tmp_path, "ops")
    path = recordings.recording(tmp_path, "graphs", records=0)
    path.write_bytes(b"")

    folder = run_folder(tmp_path)

    assert paths(folder) == ["graphs.bin", "ops.bin"]
    assert folder.skipped == ()


def test_search_for_runs_can_be_cancelled(tmp_path) -> None:
    recordings.recording(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_folder(tmp_path, stop)


def test_model_beside_a_trace_is_no_run(tmp_path: Path) -> None:
    model = SAMPLES / "moe-experiment" / "model.gguf"
    if not model.exists():
        pytest.skip("the samples have not been made")
    shutil.copy(model, tmp_path)
    path = recordings.recording(tmp_path)

    assert runs_in(tmp_path) == [path]
    assert paths(run_folder(tmp_path)) == ["run.bin"]


def test_logs_are_runs_where_no_trace_lies_beside_them(tmp_path) -> None:
    for name in ("a", "b"):
        content = log_files.log(log_files.random_requests(1, 3))
        (tmp_path / f"{name}.log").write_bytes(content)

    assert paths(run_folder(tmp_path)) == ["a.log", "b.log"]

    recordings.recording(tmp_path)
    assert paths(run_folder(tmp_path)) == ["run.bin"]
