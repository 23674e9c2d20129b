"""What follows a file: known by its lines, where there are some."""

from contextlib import closing

import pytest

import cuda_files
import log_files
from ggscope.errors import LiveError
from ggscope.live.log_file import LogSource
from ggscope.live.open_source import follow, path_to_follow, waiting_message


@pytest.mark.parametrize("dialect", cuda_files.DIALECTS)
@pytest.mark.parametrize("name", ["calls.jsonl", "calls.log", "calls.txt", "calls"])
def test_calls_of_cuda_are_not_taken_for_a_log(tmp_path, dialect, name):
    path = tmp_path / name
    path.write_bytes(cuda_files.text(dialect))
    with pytest.raises(LiveError, match="CUDA calls of this form are not followed"):
        follow(path)


def test_kind_of_jsonl_is_reported_once_it_has_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    assert path_to_follow(str(path)) is None
    assert "is not there yet" in waiting_message(str(path))
    path.touch()
    assert path_to_follow(str(path)) is None
    assert "has no lines yet" in waiting_message(str(path))
    path.write_bytes(log_files.json_log(log_files.random_requests(1, 3)))
    assert path_to_follow(str(path)) == path
    with closing(follow(path)) as source:
        assert type(source) is LogSource
