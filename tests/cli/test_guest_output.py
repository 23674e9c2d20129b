"""What plug-ins print, by whatever way, never stands in the JSON."""

import json

LOUD = """
import os, subprocess, sys, threading
from ggscope.readers.api import ReaderInfo, Sniff
def shout(text):
    print(text)
    os.write(1, text.encode())
    os.system("echo " + text)
    thread = threading.Thread(target=print, args=(text,))
    thread.start()
    thread.join()
shout("import")
class Loud:
    info = ReaderInfo("loud", "Loud", (".loud",), "")
    def sniff(self, head):
        shout("sniff")
        return Sniff(60 if head.size else 0)
    def read(self, source, context):
        shout("read")
        raise SystemExit(7)
"""


def test_json_is_clean_whatever_a_plugin_prints(tmp_path, shell, plugin_folder):
    (plugin_folder / "loud.py").write_text(LOUD)
    (tmp_path / "x.loud").write_text("hello trace")

    result = shell("info", "--json", tmp_path / "x.loud")

    data = json.loads(result.out)
    assert "loud failed: SystemExit: 7" in data["error"]["message"]
    assert result.code == 1
    assert {"import", "sniff", "read"} <= set(result.err.split())


def test_readers_name_a_plugin_that_hangs(shell, plugin_folder):
    (plugin_folder / "hangs.py").write_text("while True: pass")

    env = {"GGSCOPE_PLUGIN_SECONDS": "0.2"}
    listed = json.loads(shell("readers", "--json", **env).out)
    output = shell("readers", **env)

    assert listed[-1]["status"] == "failed: it took longer than 0.2 seconds"
    assert listed[-1]["path"] == str(plugin_folder / "hangs.py")
    assert "failed: it took longer than 0.2 seconds" in output.out
    assert output.code == 0


def test_check_lists_plugins_that_are_switched_off(
    shell, plugin_folder, tmp_path, built
):
    (plugin_folder / "broken.py").write_text("raise ValueError('on <purpose>')")
    (tmp_path / "x.unknown").write_text("nobody takes this")
    good, bad = built(), tmp_path / "x.unknown"

    listed = json.loads(shell("check", "--json", good, bad).out)
    output = shell("check", good, "--report", tmp_path / "r.md")

    for verdict, is_ok in zip(listed, (True, False), strict=True):
        (row,) = [w for w in verdict["warnings"] if w["code"] == "plugin_off"]
        assert row["severity"] == "notice"
        assert row["place"] == str(plugin_folder / "broken.py")
        assert "on <purpose>" in row["message"]
        assert verdict["ok"] is is_ok
    assert output.code == 0
    assert "broken.py is disabled" in output.out
    assert "is disabled" in (tmp_path / "r.md").read_text()
    safe = json.loads(shell("check", "--json", "--safe-mode", bad).out)
    assert [w["code"] for w in safe["warnings"]] == ["unknown_format"]
