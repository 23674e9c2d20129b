"""Running programs under capture, and what is left when one of the two is killed.

The tracer is stood in for by ``writer.c``, a library that writes a ring by the layout
of the header, so that what is tested here is the launcher and not the hooks.
"""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ggscope_capture import launcher, ring
from recordings import facts_of
from support import need_terminal
from tracing import info

HERE = Path(__file__).parent
HEADERS = Path(ring.__file__).parent / "native"
NODES, LANES = 8, 2
PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile sig_atomic_t seen, interrupts;
static void note(int number)
{
    seen = number;
    if (number == SIGINT && write(1, "interrupted", 11)) interrupts++;
}
int main(int n, char **words)
{
    signal(SIGUSR1, note);
    signal(SIGTERM, note);
    signal(SIGINT, note);
    if (n > 3) { /* until SIGTERM: how many interrupts came */
        puts("ready");
        fflush(stdout);
        while (seen != SIGTERM) usleep(1000);
        return 40 + interrupts;
    }
    if (n > 2) {
        puts("ready");
        fflush(stdout);
        while (!seen) usleep(1000);
        return seen;
    }
    for (int c; (c = getchar()) != EOF;) putchar(c);
    fputs("to stderr\\n", stderr);
    return n > 1 ? atoi(words[1]) : 0;
}
"""
STATIC = (
    'int ggml_graph_compute(void) { return 0; } const char *c = "GGML_ASSERT";'
    "int main(void) { return 5; }"
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the writer is loaded by LD_PRELOAD"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("built")
    made = {name: folder / name for name in ("writer.so", "llama-echo", "llama-static")}
    for source, target, flags in (
        (HERE / "writer.c", "writer.so", ["-shared", "-fPIC", "-O1", f"-I{HEADERS}"]),
        (PROGRAM, "llama-echo", []),
        (STATIC, "llama-static", []),
    ):
        path = source
        if isinstance(source, str):
            path = folder / f"{target}.c"
            path.write_text(source)
        subprocess.run(["cc", "-o", made[target], path, *flags], check=True)
    return made


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a folder for its rings, which is empty afterwards."""
    memory = launcher.ring_folder()
    with tempfile.TemporaryDirectory(prefix="ggscope-test-", dir=memory) as folder:
        monkeypatch.setenv("GGSCOPE_RINGS", folder)
        yield
        assert list(Path(folder).iterdir()) == []


@pytest.fixture
def variables(built: dict[str, Path], nothing_is_left_behind: None) -> dict[str, str]:
    mine = {"GGSCOPE_TRACER": str(built["writer.so"]), "WRITER_FOR": "llama-echo"}
    return {k: v for k, v in os.environ.items() if "GGML" not in k} | mine


def captured(*arguments: object) -> list[str]:
    texts = [str(argument) for argument in arguments]
    return [sys.executable, "-m", "ggscope_capture", *texts]


def run(
    arguments: list[str], variables: dict[str, str], **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        arguments, env=variables, capture_output=True, timeout=60, check=False, **more
    )


def records_of(path: Path) -> int:
    return path.stat().st_size // 256


def test_streams_and_status_are_the_programs_own(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"

    done = run(
        captured("run", "-o", out, "--", built["llama-echo"], 7), variables,
        input=b"words \xff\n",
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (7, b"words \xff\n")
    assert done.stderr == b"to stderr\n"
    assert facts_of(out)["end"] == {
        "state": "exited", "exit_code": 7, "signal": None, "launcher": True,
    }  # fmt: skip
    assert records_of(out) == 4 * NODES * LANES
    assert facts_of(out)["records"] == 64
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.bin", "out.json"]


def test_output_is_a_trace_of_measured_spans(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "with space é.bin"
    run(captured("run", "-o", out, "--", built["llama-echo"]), variables, input=b"")

    report = info(out)

    assert report["counts"]["records"] == 64
    assert report["spans_by_quality"]["measured"] == report["counts"]["spans"] > 64
    assert report["ops"] == {"ADD": 32, "MUL_MAT": 32}


def test_event_stream_is_written_where_it_is_named(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.ggmlviz"
    named = variables | {"GGML_VIZ_OUTPUT": str(out)}

    run(captured("run", "--", built["llama-echo"]), named, input=b"")

    # Begin and end of 64 ops and of 4 graphs.
    assert info(out)["counts"]["records"] == 2 * (64 + 4)
    assert [path.name for path in tmp_path.iterdir()] == ["out.ggmlviz"]


def test_outputs_can_do_without_names(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"

    run(
        captured("run", "--no-tensor-names", "-o", out, "--", built["llama-echo"]),
        variables, input=b"",
    )  # fmt: skip

    assert records_of(out) == 64
    assert b"ffn_out" not in out.read_bytes()


def test_program_that_a_signal_ends_ends_the_launcher_likewise(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"

    done = run(
        captured("run", "-o", out, "--", built["llama-echo"]),
        variables | {"WRITER_KILL": "1"}, input=b"",
    )  # fmt: skip

    assert done.returncode == -signal.SIGKILL
    assert records_of(out) == 64
    assert facts_of(out)["end"] == {
        "state": "killed", "exit_code": None, "signal": "SIGKILL", "launcher": True,
    }  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_signals_are_passed_on(
    number: signal.Signals,
    built: dict[str, Path],
    variables: dict[str, str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.bin"
    command = captured("run", "-o", out, "--", built["llama-echo"], "wait", "here")
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"

        child.send_signal(number)

        assert child.wait(30) == number
    assert records_of(out) == 64


ALL = """
import signal, sys, time
def end(number, _):
    sys.exit(number)
others = {9, 17, 19}
for number in set(map(int, signal.valid_signals())) - others:
    signal.signal(number, end)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "number",
    [signal.SIGCONT, signal.SIGIO, signal.SIGPWR, signal.SIGXCPU, signal.SIGVTALRM,
     signal.SIGURG, signal.SIGRTMIN, signal.SIGRTMAX],
)  # fmt: skip
def test_signals_that_few_use_are_passed_on_too(
    number: int, variables: dict[str, str]
) -> None:
    """Most of them would have ended the launcher, and left the program alone."""
    command = captured("run", "--", sys.executable, "-c", ALL)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=variables, stdout=pipe, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"

        child.send_signal(number)

        assert child.wait(30) == number


def test_interrupts_reach_the_program_once_however_they_are_sent(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """A terminal sends Ctrl+C to both; `kill` to the launcher alone."""
    need_terminal()
    out = tmp_path / "out.bin"
    command = captured("run", "-o", out, "--", built["llama-echo"], "a", "b", "c")
    child, terminal = pty.fork()
    if child == 0:  # in a session of its own, with this terminal
        os.execve(command[0], command, variables)
    value = b""

    def wait_for_text(text: bytes) -> None:
        nonlocal value
        while text not in value:
            value += os.read(terminal, 1024)
        value = b""

    wait_for_text(b"ready")
    os.write(terminal, b"\x03")
    wait_for_text(b"interrupted")
    # Signals of one number that wait are one: the terminal's is to be taken first.
    wait_for(lambda: pending(child) == 0)
    os.kill(child, signal.SIGINT)
    wait_for_text(b"interrupted")
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 42
    assert records_of(out) == 64


def pending(pid: int) -> int:
    """Return the signals that wait for a process, as bits."""
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(
        int(line.split()[1], 16)
        for line in text.splitlines()
        if line.startswith(("SigPnd", "ShdPnd"))
    )


def test_program_that_cannot_be_entered_runs_untraced(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"

    done = run(captured("run", "-o", out, "--", built["llama-static"]), variables)

    assert done.returncode == 5
    assert done.stderr.count(b"\n") == 1
    assert b"runs untraced: ggml is linked statically into the program" in done.stderr
    assert not out.exists()


def test_required_trace_that_cannot_begin_is_125(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    static = captured("run", "--require", "-o", out, "--", built["llama-static"])
    silent = captured("run", "--require", "-o", out, "--", built["llama-echo"])

    assert run(static, variables).returncode == 125
    other = variables | {"WRITER_FOR": "another"}
    assert run(silent, other, input=b"").returncode == 125


def test_output_that_cannot_be_written_is_reported_before_the_run(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out.bin"

    done = run(
        captured("run", "-o", out, "--", built["llama-echo"], 3), variables, input=b""
    )

    assert done.returncode == 3
    assert b"runs untraced" in done.stderr


@pytest.mark.parametrize("flags", [[], ["-v"]])
@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "2>/dev/full"])
def test_streams_that_take_nothing_change_neither_status_nor_trace(
    closed: str,
    flags: list[str],
    built: dict[str, Path],
    variables: dict[str, str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.bin"
    text = captured("run", *flags, "-o", out, "--", built["llama-echo"], 7)

    done = run(["sh", "-c", f'"$@" {closed}', "sh", *text], variables, input=b"")

    assert done.returncode == 7
    assert b"Traceback" not in done.stderr
    assert records_of(out) == 64


def test_reader_of_messages_that_goes_away_costs_no_record(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    quiet = ["sh", "-c", '"$0" 7 2>&-', built["llama-echo"]]
    text = captured("run", "-v", "-o", out, "--", *quiet)
    reader, stderr = os.pipe()
    os.close(reader)

    done = subprocess.run(
        text, env=variables, input=b"", stdout=subprocess.PIPE, stderr=stderr,
        check=False, timeout=60,
    )  # fmt: skip
    os.close(stderr)

    assert done.returncode == 7
    assert records_of(out) == 64


def test_wrong_words_of_others_cost_no_recording(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """The environment and a file may be older than the command."""
    odd = variables | {"GGML_VIZ_BUFFER_SIZE": "1000"}
    torn, wrong = tmp_path / "c.json", tmp_path / "wrong.json"
    torn.write_text("{")
    wrong.write_text('{"instrumentation": {"max_events": "x", "layers": "0"}}')
    echo = built["llama-echo"]
    out = [tmp_path / f"{name}.bin" for name in ("odd", "torn", "wrong")]

    done = run(captured("run", "-o", out[0], "--", echo, 7), odd, input=b"")
    required = run(captured("run", "--require", "--", echo, 7), odd, input=b"")
    by_file = run(
        captured("run", "--config", torn, "-o", out[1], "--", echo, 7), variables,
        input=b"",
    )  # fmt: skip
    others = run(
        captured("run", "--config", wrong, "-o", out[2], "--", echo, 7), variables,
        input=b"",
    )  # fmt: skip
    typed = run(captured("run", "--require", "--sample", "x", "--", echo), variables)
    unrequired = run(captured("run", "--sample", "x", "--", echo), variables)

    assert (done.returncode, by_file.returncode, others.returncode) == (7, 7, 7)
    assert b"GGML_VIZ_BUFFER_SIZE is" in done.stderr
    assert bytes(torn) in by_file.stderr
    assert records_of(out[0]) == records_of(out[1]) == 64
    assert records_of(out[2]) == 16  # what else the file says counts
    assert (required.returncode, required.stderr.count(b"\n")) == (125, 1)
    assert (typed.returncode, typed.stdout) == (125, b"")
    assert (unrequired.returncode, unrequired.stdout) == (2, b"")


def test_configuration_of_ggml_viz_documents_records(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """With a key that nobody knows: the file is written all the same."""
    stream, records = tmp_path / "llama_trace.ggmlviz", tmp_path / "c2.bin"
    config = tmp_path / "config.json"
    document = {
        "cli": {"verbose": True, "live_mode": False, "port": 8080},
        "instrumentation": {
            "max_events": 50000, "enable_op_timing": True,
            "enable_memory_tracking": True, "output_file": str(stream), "coulour": 1,
        },
        "logging": {
            "level": "INFO", "enable_timestamps": True, "enable_thread_id": True,
            "prefix": "[LLAMA_DEMO]",
        },
    }  # fmt: skip
    config.write_text(json.dumps(document))
    arguments = ["run", "--config", config]

    done = run(
        captured(*arguments, "-o", records, "--", built["llama-echo"], 7), variables,
        input=b"",
    )  # fmt: skip

    assert done.returncode == 7
    assert stream.read_bytes()[:8] == b"GGMLVIZ1"
    assert records_of(records) == 64
    lines = [
        line for line in done.stderr.decode().splitlines() if "[LLAMA_DEMO]" in line
    ]
    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[LLAMA_DEMO\]: \[\d+\] \S.*"
    assert lines
    assert all(re.fullmatch(form, line) for line in lines)
    assert sum("unknown key instrumentation.coulour" in line for line in lines) == 1


def test_what_is_not_kept_is_not_reported_as_not_computed(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """What may be written to before the run may be no more when it computes."""
    folder, there = tmp_path / "folder", tmp_path / "there.bin"
    folder.mkdir()
    slow = 'rmdir "$0"; echo > "$0"; "$1" 7 2>&-'
    arguments = ["sh", "-c", slow, folder, built["llama-echo"]]

    done = run(
        captured("run", "-o", folder / "o.bin", "--", *arguments), variables, input=b""
    )
    left, definitions = sorted(launcher.ring_folder().iterdir())
    recovered = run(captured("recover", left, "-o", there), variables)

    assert done.returncode == 7
    assert b"no trace: the ring could not be read" in done.stderr
    assert f"recover '{left}' -o OUT.bin".encode() in done.stderr
    assert b"Errno" not in done.stderr
    assert b"before it computed a traced graph" not in done.stderr
    assert definitions == ring.defs_path(left)
    assert recovered.returncode == 0
    assert records_of(there) == 64
    assert list(launcher.ring_folder().iterdir()) == []


def test_what_others_put_beside_a_ring_stays_and_is_not_read(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """The folder for rings is one that everybody may write to."""
    out, mine = tmp_path / "out.bin", tmp_path / "mine"
    mine.write_text("words")
    bait = (
        'ln -s "$0" "$GGSCOPE_RING-1"; mkfifo "$GGSCOPE_RING-2"; '
        'mkdir "$GGSCOPE_RING-3"; exec "$1"'
    )

    done = run(
        captured("run", "-o", out, "--", "sh", "-c", bait, mine, built["llama-echo"]),
        variables, input=b"",
    )  # fmt: skip

    left = sorted(launcher.ring_folder().iterdir())
    assert (done.returncode, done.stderr.count(b"ERROR")) == (0, 0)
    assert records_of(out) == 64
    assert [path.name[-2:] for path in left] == ["-1", "-2", "-3"]
    assert mine.read_text() == "words"
    for path in left:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_reason_for_no_trace_is_one_line_and_names_the_signal(
    variables: dict[str, str],
) -> None:
    killed = run(captured("run", "--", "sh", "-c", "kill -9 $$"), variables)
    ended = run(captured("run", "--require", "--", "sh", "-c", "exit 7"), variables)

    assert killed.returncode == -signal.SIGKILL
    assert b"the program died of SIGKILL before" in killed.stderr
    assert ended.returncode == 125
    assert ended.stderr.count(b"\n") == 1
    assert b"the program exited with code 7 before" in ended.stderr


def test_missing_programs_have_the_codes_of_the_shell(
    variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("no program")

    assert run(captured("run", "--", "no-such-llama"), variables).returncode == 127
    assert run(captured("run", "--", tmp_path / "text"), variables).returncode == 126
    assert run(captured("run"), variables).returncode == 2


def test_script_that_names_no_interpreter_runs_as_in_a_shell(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "serve it"
    script.write_text(f"'{built['llama-echo']}' </dev/null\necho $2\nexit 7\n")
    script.chmod(0o755)
    other = tmp_path / "of-another-machine"
    other.write_bytes(b"MZ\0\0")
    other.chmod(0o755)
    out = tmp_path / "out.bin"

    done = run(captured("run", "-o", out, "--", script, "one", "two words"), variables)
    refused = run(captured("run", "--", other), variables)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (7, b"two words")
    assert records_of(out) > 0
    assert refused.returncode == 126


def test_each_process_that_computes_has_its_own_output(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    both = f"'{built['llama-echo']}' </dev/null & '{built['llama-echo']}'; wait"

    run(captured("run", "-o", out, "--", "sh", "-c", both), variables, input=b"")

    assert records_of(out) == records_of(tmp_path / "out-2.bin") == 64


def test_tracer_may_lie_in_a_folder_with_spaces(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "a b:c"
    folder.mkdir()
    tracer = folder / "writer.so"
    tracer.write_bytes(built["writer.so"].read_bytes())
    out = tmp_path / "out.bin"

    run(
        captured("run", "-o", out, "--", built["llama-echo"]),
        variables | {"GGSCOPE_TRACER": str(tracer)}, input=b"",
    )  # fmt: skip

    assert records_of(out) == 64


@pytest.mark.parametrize(
    ("flags", "n"),
    [
        (["--ops", "MUL_MAT"], 32),
        (["--ops", "!MUL_MAT,!ADD"], 0),
        (["--threads", "1"], 32),
        (["--no-thread-tracking"], 32),
        (["--layers", "0,2-3"], 48),
        (["--layers", "0"], 16),
        (["--no-op-timing"], 0),
        (["--max-records", "10"], 10),
        (["--layers", "1", "--ops", "ADD", "--threads", "0"], 4),
    ],
)
def test_filters_leave_out_exactly_what_they_say(
    flags: list[str],
    n: int,
    built: dict[str, Path],
    variables: dict[str, str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.bin"

    run(
        captured("run", "-o", out, *flags, "--", built["llama-echo"]), variables,
        input=b"",
    )  # fmt: skip

    assert records_of(out) == n
    account = facts_of(out)["account"]
    assert (account["recorded"], account["missing"] - account["beyond_limit"]) == (n, 0)
    assert account["left_out"] == 4 * NODES * LANES - n - account["beyond_limit"]


def test_changed_file_changes_the_settings_of_a_running_program(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """The writer stops for good at the signal: it would write for a minute."""
    settings = tmp_path / "c.json"
    settings.write_text('{"instrumentation": {"enabled": true}}')
    out = tmp_path / "out.bin"
    slow = {"WRITER_GRAPHS": "400", "WRITER_PAUSE_US": "5000"}
    command = captured(
        "run", "--config", settings, "-o", out, "--", built["llama-echo"]
    )
    with subprocess.Popen(
        command, env=variables | slow, stdin=subprocess.DEVNULL
    ) as child:
        wait_for(lambda: has_records(tmp_path / "out.bin.partial"))

        settings.write_text('{"instrumentation": {"enabled": false}}')

        assert child.wait(30) == 0
    assert 0 < records_of(out) < 400 * NODES * LANES
    facts = facts_of(out)
    assert [change["enabled"] for change in facts["changes"]] == [False]
    assert facts["skipped_graphs"] + facts["graphs"] == 400
    assert facts["settings"]["enabled"]


@pytest.mark.parametrize("value", ["1", "0"])
def test_tracing_that_is_switched_off_is_reported(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path, value: str
) -> None:
    out = tmp_path / "out.bin"

    done = run(
        captured("run", "-o", out, "--", built["llama-echo"]),
        variables | {"GGML_VIZ_DISABLE": value}, input=b"",
    )  # fmt: skip

    assert done.returncode == 0
    assert (b"GGML_VIZ_DISABLE" in done.stderr) is (value == "1")
    assert (records_of(out) == 0) is (value == "1")


@pytest.mark.parametrize("n_bytes", [0, 100, 1 << 20])
def test_ring_of_a_program_that_ends_while_it_makes_it_is_removed(
    n_bytes: int, built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    """Nothing can be in it; the fixture looks whether it is gone."""
    out = tmp_path / "out.bin"

    done = run(
        captured("run", "-o", out, "--", built["llama-echo"]),
        variables | {"WRITER_HALF": str(n_bytes)}, input=b"",
    )  # fmt: skip

    assert b" ignored: " not in done.stderr
    assert b"no trace" in done.stderr
    assert not out.exists()
    assert done.returncode != 0


def has_records(folder: Path) -> bool:
    records = folder / "records"  # the folder is there a moment before
    return records.exists() and records.stat().st_size > 0


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_losses_of_a_small_ring_are_counted_exactly(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    small = {"WRITER_LANE": "16", "WRITER_GRAPHS": "40"}

    run(
        captured("run", "-o", out, "--", built["llama-echo"]), variables | small,
        input=b"",
    )  # fmt: skip

    facts = facts_of(out)
    lost, account = facts["lost"], facts["account"]
    assert lost > 0
    assert records_of(out) + lost == 40 * NODES * LANES
    assert account["missing"] == lost
    assert account["expected"] == 40 * NODES * LANES
    short = account["short"]
    assert sum(short["expected"]) - sum(short["recorded"]) == lost


def test_killed_launcher_loses_nothing_and_the_program_lives(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    slow = {"WRITER_GRAPHS": "100", "WRITER_PAUSE_US": "3000"}
    command = captured("run", "-o", out, "--", built["llama-echo"], "wait", "here")
    with subprocess.Popen(
        command, env=variables | slow, stdout=subprocess.PIPE
    ) as child:
        wait_for(lambda: has_records(tmp_path / "out.bin.partial"))
        child.kill()
        child.wait(30)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"  # the program goes on to its end
        left = next(
            r for r in listed(variables) if r["folder"] and str(tmp_path) in r["folder"]
        )
        assert (left["state"], left["reader"]) == ("running", None)
        os.kill(left["pid"], signal.SIGTERM)
        assert child.stdout.read() == b""  # it has ended

    state = next(r for r in listed(variables) if r["path"] == left["path"])["state"]
    done = run(captured("recover", left["path"], "-o", out), variables)

    assert state == "ended"
    assert (done.returncode, done.stderr) == (0, b"")
    assert records_of(out) == 100 * NODES * LANES
    assert facts_of(out)["end"]["launcher"] is False
    assert facts_of(out)["end"]["state"] == "exited"
    times = np.frombuffer(out.read_bytes(), "<u8").reshape(-1, 32)[:, 0]
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.bin", "out.json"]


def listed(variables: dict[str, str]) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads(
        run(captured("rings", "--json"), variables).stdout
    )
    return data


def test_ring_of_a_killed_program_opens_as_a_trace(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    path = launcher.ring_folder() / f"ggscope-{os.getpid()}-killed"
    mine = {
        "LD_PRELOAD": str(built["writer.so"]), "GGSCOPE_RING": str(path),
        "WRITER_KILL": "1",
    }  # fmt: skip
    subprocess.run([built["llama-echo"]], env=variables | mine, check=False)
    out = tmp_path / "out.bin"

    item = next(r for r in listed(variables) if r["path"] == str(path))
    done = run(captured("recover", path, "-o", out), variables)

    assert (item["state"], item["waiting"]) == ("dead", 64)
    assert done.returncode == 0
    assert records_of(out) == 64


def test_ring_that_another_process_empties_is_left_to_it(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    command = captured("run", "-o", out, "--", built["llama-echo"], "wait", "here")
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE) as child:
        wait_for(lambda: any(ring["reader"] for ring in listed(variables)))
        pid = next(ring["pid"] for ring in listed(variables))

        done = run(captured("recover", pid, "-o", tmp_path / "other.bin"), variables)

        assert done.returncode == 1
        assert f"process {child.pid} is already reading it".encode() in done.stderr
        child.send_signal(signal.SIGTERM)
        child.wait(30)
    assert records_of(out) == 64
    assert not (tmp_path / "other.bin").exists()


def test_rings_go_elsewhere_where_shared_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GGSCOPE_RINGS")
    full = SimpleNamespace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)

    assert launcher.ring_folder() == Path(tempfile.gettempdir())


@pytest.mark.parametrize("content", [b"", b"GGSRING1" * 512, b"\0" * 8192, b"x" * 5000])
def test_foreign_and_torn_rings_are_listed_and_refused(
    content: bytes, variables: dict[str, str], tmp_path: Path
) -> None:
    path = launcher.ring_folder() / f"ggscope-{os.getpid()}-torn"
    path.write_bytes(content)
    try:
        item = next(r for r in listed(variables) if r["path"] == str(path))
        done = run(captured("recover", path, "-o", tmp_path / "o.bin"), variables)
    finally:
        path.unlink()

    assert item["state"] in {"damaged", "not ready"}
    assert done.returncode == 1
    assert str(path).encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_running_program_can_be_reported_what_to_trace(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    path = launcher.ring_folder() / f"ggscope-{os.getpid()}-set"
    mine = {"LD_PRELOAD": str(built["writer.so"]), "GGSCOPE_RING": str(path)}
    subprocess.run(
        [built["llama-echo"]], env=variables | mine, check=False, input=b"",
        capture_output=True,
    )  # fmt: skip
    arguments = ["--sample", "5", "--ops", "!ADD", "--layers", "2-3", "--no-enabled"]

    done = run(captured("set", path, *arguments), variables)

    page = np.frombuffer(path.read_bytes(), ring.CONTROL, 1)[0]
    run(captured("recover", path, "-o", tmp_path / "o.bin"), variables)
    assert done.returncode == 0
    assert (page["sample_every"], page["enabled"], page["filter_seq"]) == (5, 0, 1)
    assert page["op_mask"].tolist() == [1 << 2, 0, 0, 0]
    assert (page["layer_first"], page["layer_last"]) == (2, 3)
    assert not page["lane_mask"].any()  # was not asked for


def test_wrong_settings_are_refused_before_the_run(
    built: dict[str, Path], variables: dict[str, str], tmp_path: Path
) -> None:
    done = run(
        captured("run", "--ring-records", "1000", "--", built["llama-echo"]), variables
    )

    assert done.returncode == 2
    assert b"--ring-records" in done.stderr
    assert done.stdout == b""
