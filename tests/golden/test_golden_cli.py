"""What the command line says about every bundled sample, word for word."""

from collections.abc import Callable, Iterator

import pytest

from ggscope import cli
from ggscope.readers import plugins
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir())
COMMANDS = {
    "info": ["info FILE"],
    "info-json": ["info FILE --json"],
    "check": ["check FILE", "check FILE --strict --json"],
    "stats": [
        f"stats FILE --by {by} --limit 12" for by in ("op", "layer", "token", "thread")
    ],
    "show": ["show FILE --ascii --width 100", "show FILE --width 60 --color-by layer"],
}
"""The commands of each golden file; FILE stands for the sample."""


@pytest.fixture(autouse=True)
def only_built_in_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave out the plug-ins of whoever runs this; name samples without a folder."""
    monkeypatch.setenv(plugins.SAFE_VARIABLE, "1")
    monkeypatch.chdir(SAMPLES)
    plugins.reload()
    yield
    plugins.reload()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_command_says_what_it_said(
    capsys: pytest.CaptureFixture[str],
    check_golden_text: Callable[[str, str], None],
    name: str,
    command: str,
) -> None:
    messages = []
    for line in (pattern.replace("FILE", name) for pattern in COMMANDS[command]):
        code = cli.main(line.split())
        out, err = capsys.readouterr()
        messages.append(f"$ ggscope {line}\n{out}{err}[exit code {code}]\n")

    check_golden_text("\n".join(messages), f"cli/{name}.{command}.txt")
