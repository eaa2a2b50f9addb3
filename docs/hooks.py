"""Hooks of MkDocs: the package as one tree for mkdocstrings, and percent scripts as pages."""

import json
import re
import shutil
from pathlib import Path

from mkdocs.structure.files import File
from percent import to_markdown

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build/site_source"


def on_startup(command, dirty):
    """Copies the package as the wheel has it: with models/ and train/ inside."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for folder, name in (("tfx_transformer", ""), ("models", "models"), ("train", "train")):
        shutil.copytree(ROOT / folder, SOURCE / "tfx_transformer" / name)


def on_files(files, config):
    """Adds a page for each tutorial."""
    for script in sorted(ROOT.glob("docs/tutorials/*.py")):
        outputs = json.loads(script.with_suffix(".json").read_text())
        page = to_markdown(script.read_text(), outputs)
        page += f"\nThis page is a script that runs: [{script.name}]({script.name}).\n"
        files.append(File.generated(config, f"tutorials/{script.stem}.md", content=page))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lists the models, and links to the pages of tutorials instead of their scripts."""
    if page.file.src_uri == "api/models.md":
        imports = r"from (tfx_transformer\.models\.\w+) import (\w+)"
        for module, name in re.findall(imports, (ROOT / "models/__init__.py").read_text()):
            markdown += f"\n\n::: {module}.{name}"
    return re.sub(r"\((\S*tutorials/\w+)\.py\)", r"(\1.md)", markdown)
