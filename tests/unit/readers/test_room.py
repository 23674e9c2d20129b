"""Whether a file fits into memory, and what is offered where it does not."""

from pathlib import Path

import pytest

from ggscope.errors import LimitExceededError
from ggscope.readers import memory as readers_memory
from ggscope.readers import registry
from ggscope.readers.api import Estimate
from ggscope.readers.memory import (
    LIMIT_VARIABLE,
    available_bytes,
    judge,
    process_bytes,
    system_bytes,
    too_large,
)

WHOLE = Estimate(1_000_000, 40_000_000, 60_000_000, True, True)


def test_file_that_needs_less_than_there_is_fits() -> None:
    assert judge(WHOLE, {}, limit_bytes=60_000_000).fits
    assert not judge(WHOLE, {}, limit_bytes=59_999_999).fits


def test_a_part_needs_its_share() -> None:
    fit = judge(WHOLE, {"range": "0:10%"}, limit_bytes=6_000_000)

    assert fit.fits
    assert fit.n_records == 100_000


def test_range_counts_only_where_the_reader_knows_it() -> None:
    deaf = Estimate(1_000_000, 40_000_000, 60_000_000)

    assert not judge(deaf, {"range": "0:1%"}, limit_bytes=6_000_000).fits


def test_range_that_is_not_understood_is_left_to_the_reader() -> None:
    assert judge(WHOLE, {"range": "soon"}, limit_bytes=1).n_records == 1_000_000


def test_fewer_names_need_less() -> None:
    assert judge(WHOLE, {"names": "none"}, limit_bytes=40_000_000).fits
    assert not judge(WHOLE, {"names": "all"}, limit_bytes=40_000_000).fits


def test_callers_own_needs_count() -> None:
    assert not judge(WHOLE, {}, limit_bytes=60_000_000, extra_per_record=1).fits


@pytest.mark.parametrize("limit", [1, 1000, 600_000, 33_000_000])
def test_what_is_offered_fits(limit: int) -> None:
    n = judge(WHOLE, {}, limit_bytes=limit).n_fitting

    assert n >= 1
    assert n == 1 or judge(WHOLE, {"range": f"0:{n}"}, limit_bytes=limit).fits


def test_file_without_records_fits() -> None:
    assert judge(Estimate(0, 0, 0), {}, limit_bytes=1).fits


def test_error_says_figures_and_ways_out() -> None:
    fit = judge(WHOLE, {}, limit_bytes=30 << 20)

    error = too_large(fit, Path("big.bin"), "Use --force.")

    assert isinstance(error, LimitExceededError)
    assert error.code == "too_large"
    assert error.fit is fit
    assert "1,000,000 records" in str(error)
    assert "30.0 MiB are available" in str(error)
    assert str(error).endswith("Use --force.")


def test_limit_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "3")

    assert judge(WHOLE, {}).available_bytes == 3 << 20
    assert judge(WHOLE, {}, limit_bytes=7).available_bytes == 7


def test_nonsense_in_the_environment_is_not_heeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "much")

    assert judge(WHOLE, {}).available_bytes == pytest.approx(available_bytes(), rel=0.2)


def test_system_has_more_than_it_gives() -> None:
    available, total = system_bytes()

    assert 0 < available <= total
    assert available_bytes() < total
    assert 1 << 20 < process_bytes() < total


def test_figures_without_proc_come_from_psutil(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exact = process_bytes()
    monkeypatch.setattr(readers_memory, "_PROC", tmp_path)

    assert process_bytes() == pytest.approx(exact, rel=0.2)
    assert system_bytes()[1] > 1 << 28


def test_control_group_limits_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000000\n")
    monkeypatch.setattr(readers_memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(readers_memory, "_own_cgroup", str)

    assert readers_memory.cgroup_free_bytes() == [150_000_000, 150_000_000]
    assert available_bytes() == 0  # the reserve is larger


def test_control_group_without_limit_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    monkeypatch.setattr(readers_memory, "_CGROUP", tmp_path)

    assert readers_memory.cgroup_free_bytes() == []


@pytest.mark.parametrize(
    ("name", "text", "noun"),
    [
        (
            "buffer-stats",
            '{"timestamp_ms":1,"event":"free","buffer_id":1}\n' * 20,
            "buffer events",
        ),
        (
            "buffer-timeline",
            '{"timeline":[],"buffers":['
            + ",".join(f'{{"id":{i}}}' for i in range(40))
            + "]}",
            "buffer events",
        ),
        (
            "trace-json",
            '{"token_id":0,"entries":['
            + ",".join(
                f'{{"timestamp_ns":{i},"operation_type":"o{i}"}}' for i in range(20)
            )
            + "]}",
            "different accesses",
        ),
    ],
)
def test_more_than_a_file_of_its_size_can_mean_is_refused(
    tmp_path, monkeypatch, name, text, noun
):
    monkeypatch.setattr(readers_memory, "_FREE_BYTES", 0)
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(LimitExceededError, match=rf"has more than \d+ {noun}"):
        registry.open_trace(path, reader_id=name)
