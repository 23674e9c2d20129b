"""The fuzz campaign finds what is planted, shrinks it, and repeats it."""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from fuzzing import campaign as campaigns
from fuzzing import cases
from fuzzing.campaign import (
    Campaign,
    base_environment,
    build_sanitized,
    finding_case,
    replay,
    sanitizer_environment,
    shrunk,
)
from fuzzing.cases import Case, CaseFailedError, attempt, case_of, sound_case
from fuzzing.mutations import densely_mutated, mutated
from fuzzing.seeds import reader_ids
from ggscope.readers import registry

OVERFLOW = """
#include <stdlib.h>
void planted_overflow(int n) {
    volatile char *room = malloc(n);
    room[n] = 1;
    free((void *)room);
}
"""
KINDS = {
    "exception": "ValueError in planted.py:_do",
    "warning": "RuntimeWarning in planted.py:_do",
    "crash": "end of the process, signal 11",
    "hang": "hang of more than 1 s of processor time",
    "memory": "memory",
    "offset": "offset outside of the file: read",
}


@pytest.mark.parametrize("fault", KINDS)
def test_planted_fault_is_found_and_kept(tmp_path: Path, fault: str) -> None:
    environment = base_environment() | {"GGSCOPE_PLANTED": fault}
    campaign = Campaign(folder=tmp_path, environment=environment, processes=1)

    # A slow machine needs its time to fill the memory.
    seconds = 1.0 if fault == "hang" else 30.0
    tally = campaign.run("planted", 0, n_cases=8, seconds=100, cpu_seconds=seconds)

    assert tally.n_cases == 8
    assert tally.n_findings > 0
    assert [kind for _, kind in campaign.keeper.kinds] == [KINDS[fault]]
    (folder,) = (tmp_path / "findings").iterdir()
    assert finding_case(folder).reader == "planted"


def test_planted_overflow_in_compiled_code_is_found(tmp_path: Path) -> None:
    if not has_sanitizers(tmp_path):
        pytest.skip("there is no gcc with sanitizers here")
    (tmp_path / "planted.c").write_text(OVERFLOW)
    build_sanitized(tmp_path / "planted.c", tmp_path / "planted.so")
    environment = (
        base_environment()
        | sanitizer_environment()
        | {
            "GGSCOPE_PLANTED": "sanitizer",
            "GGSCOPE_PLANTED_LIBRARY": str(tmp_path / "planted.so"),
        }
    )
    campaign = Campaign(folder=tmp_path, environment=environment, processes=1)

    campaign.run("planted", 0, n_cases=8, seconds=100)

    ((_, kind),) = campaign.keeper.kinds
    assert kind == "end of the process, AddressSanitizer: heap-buffer-overflow"


def has_sanitizers(folder: Path) -> bool:
    if shutil.which("gcc") is None:
        return False
    (folder / "probe.c").write_text("int probe;")
    try:
        build_sanitized(folder / "probe.c", folder / "probe.so")
    except (SystemExit, OSError, subprocess.CalledProcessError):
        return False
    return Path(sanitizer_environment()["LD_PRELOAD"]).is_absolute()


def test_finding_is_shrunk_to_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGSCOPE_PLANTED", "exception")
    case = Case("planted", "t.planted", bytes(500) + b"\x03" + bytes(500))
    with pytest.raises(CaseFailedError) as failed:
        attempt(case, tmp_path)

    small = shrunk(case, failed.value.kind, tmp_path)

    assert small.data == b"\x03"


def test_kept_finding_is_repeated_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign(
        folder=tmp_path,
        environment=base_environment() | {"GGSCOPE_PLANTED": "exception"},
        processes=1,
    )
    campaign.run("planted", 0, n_cases=8, seconds=100)
    (folder,) = (tmp_path / "findings").iterdir()

    assert replay(folder) == 0
    monkeypatch.setenv("GGSCOPE_PLANTED", "exception")
    assert replay(folder) == 1
    assert "ValueError: planted" in capsys.readouterr().out


def test_cases_are_run_for_each_reader_and_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "FOLDER", tmp_path)
    arguments = ["--cases", "5", "--processes", "2"]
    arguments += ["--reader", "folded", "--reader", "llama-bench"]

    tables = []
    for _ in range(2):
        assert campaigns.main(arguments) == 0
        rows = capsys.readouterr().out.splitlines()[1:]
        tables.append([[*row.split()[:3], *row.split()[-2:]] for row in rows])

    for reader, first, second in zip(("folded", "llama-bench"), *tables, strict=True):
        tried = [case_of(reader, number) for number in range(10)]
        mutations = [sum(c.n_mutations for c in part) for part in (tried[:5], tried)]
        more = mutations[1] - mutations[0]
        assert first == [reader, "5", f"{mutations[0]:,}", "5", f"{mutations[0]:,}"]
        assert second == [reader, "5", f"{more:,}", "10", f"{mutations[1]:,}"]


def test_counts_of_cases_with_other_numbers_are_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigns, "FOLDER", tmp_path)
    arguments = ["--cases", "5", "--processes", "1", "--reader", "folded"]
    assert campaigns.main(arguments) == 0
    path = tmp_path / "counts.json"
    (first,) = json.loads(path.read_text()).values()

    path.write_text(json.dumps({"folded plain": first | {"generation": 1}}))
    assert campaigns.main(arguments) == 0

    (second,) = json.loads(path.read_text()).values()
    assert second == first | {"earlier": 5, "earlier_mutations": first["mutations"]}


@pytest.mark.parametrize("count", ["0", "-3", "many"])
def test_number_of_cases_is_positive(count: str) -> None:
    with pytest.raises(SystemExit) as ended:
        campaigns.main(["--reader", "folded", "--cases", count])
    assert ended.value.code == 2


@pytest.mark.parametrize("reader_id", reader_ids())
def test_sound_seed_is_read_the_whole_way(tmp_path: Path, reader_id: str) -> None:
    assert attempt(sound_case(reader_id), tmp_path) == "read"
    seeds = cases.all_seeds(reader_id)
    for name, data in (*seeds.whole, *seeds.small, *seeds.long):
        assert attempt(Case(reader_id, name, data), tmp_path) == "read"


def test_every_built_in_reader_has_seeds() -> None:
    built_in = {r.info.id for r in registry.readers()}

    assert set(reader_ids()) == built_in


@pytest.mark.parametrize("reader_id", reader_ids())
def test_case_is_the_same_for_the_same_number(reader_id: str) -> None:
    made = [case_of(reader_id, n) for n in range(40)]
    assert made == [case_of(reader_id, n) for n in range(40)]
    seeds = cases.all_seeds(reader_id)
    sound = [*seeds.contents, *(content for _, content in seeds.long)]
    changed = [case for case in made if case.data not in sound]
    assert len(changed) > 30
    assert all(case.n_mutations > 0 for case in changed)
    assert any(case.is_dense for case in made) == bool(seeds.long)


def test_mutation_of_nothing_is_survived() -> None:
    for number in range(300):
        mutated(Random(number), b"", [b""])


def test_dense_mutations_are_of_different_lines() -> None:
    data = b"\n".join(b"line %d, 1.5 ms" % number for number in range(300))
    lines = data.split(b"\n")
    for number in range(50):
        changed, n_mutations = densely_mutated(Random(number), data)
        # A mutation may put line ends into its line, and takes none away.
        sound = set(changed.split(b"\n"))
        n_gone = sum(line not in sound for line in lines)
        assert 10 <= n_mutations <= 50
        assert n_gone <= n_mutations


def test_dense_mutations_of_json_leave_json() -> None:
    data = json.dumps({"rows": [{"name": "a", "ms": [1, 2.5]}] * 20}).encode()
    for number in range(50):
        changed, n_mutations = densely_mutated(Random(number), data)
        assert json.loads(changed) != json.loads(data)
        assert 1 <= n_mutations <= 16
