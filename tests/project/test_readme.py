"""The README says what is so: its code runs, its tables are made from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from leanrag_engine.core.config import Settings
from leanrag_mcp.app import create_server
from leanrag_mcp.http.settings import HttpSettings

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def settings_table() -> str:
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in {**Settings.model_fields, **HttpSettings.model_fields}.items():
        default = "the platform's own" if field.default_factory else field.default
        shown = (
            "none"
            if default in ((), None)
            else str(default).lower()
            if isinstance(default, bool)
            else default
        )
        rows.append(f"| `LEANRAG_{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows)


def test_the_settings_table_is_made_from_the_code() -> None:
    block = re.search(r"<!-- settings:[^\n]*-->\n\n(.*?)\n\n<!-- /settings -->", README, re.DOTALL)
    assert block, "README.md lost its settings block"
    assert block[1] == settings_table()


def test_the_tools_table_names_every_tool_and_no_other() -> None:
    section = README.split("## What the model gets")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", section))
    offered = {tool.name for tool in create_server(Settings())._tool_manager.list_tools()}
    assert named == offered


def test_the_python_example_runs_and_finds_the_answer(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code[1]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Charles Babbage" in ran.stdout
    assert "[d1:c1]" in ran.stdout
