"""Percent scripts: Python files whose lines `# %%` and `# %% [markdown]` begin cells.

    python docs/percent.py docs/tutorials/attention.py     # runs it and records what it prints

The outputs are recorded beside the script, in attention.json, a text for each code cell; pictures
are written to the folder pictures there. `docs/hooks.py` makes pages of scripts and outputs.
"""

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path

MARKDOWN = "[markdown]"


def cells(script: str) -> list[tuple[str, str]]:
    """The kind, "markdown" or "code", and the text of each cell."""
    found = []
    for part in re.split(r"^# %%", script, flags=re.M)[1:]:
        head, _, text = part.partition("\n")
        if head.strip() == MARKDOWN:
            found.append(("markdown", re.sub(r"^# ?", "", text, flags=re.M).strip()))
        else:
            found.append(("code", text.strip()))
    return found


def to_markdown(script: str, outputs: list[str]) -> str:
    """The page of a script, with the recorded output below each code cell."""
    parts, rest = [], list(outputs)
    for kind, text in cells(script):
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
        if kind == "code" and (output := rest.pop(0)):
            parts.append(f'```text title="output"\n{output}\n```')
    if rest:
        raise ValueError(f"{len(rest)} outputs have no cell: record them anew by `make tutorials`")
    return "\n\n".join(parts) + "\n"


def record(path: Path) -> list[str]:
    """Runs the code cells in one namespace and returns what each of them prints."""
    namespace, outputs = {"__name__": "__main__"}, []
    for kind, text in cells(path.read_text()):
        if kind == "code":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, path.name, "exec"), namespace)
            outputs.append(printed.getvalue().strip("\n"))
    return outputs


if __name__ == "__main__":
    script = Path(sys.argv[1]).resolve()
    os.chdir(script.parent)
    outputs = record(script)
    script.with_suffix(".json").write_text(json.dumps(outputs, indent=1, ensure_ascii=False) + "\n")
