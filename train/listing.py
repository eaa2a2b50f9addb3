"""The table of all models: variants, parameters, papers, and supported checkpoints.

It is stored in models.json, because to count parameters takes seconds; a test counts them.
`python -m tfx_transformer.train.listing` writes it.
"""

import json
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent / "models.json"
TRANSLATORS = {"transformer": ["Marian", "CTranslate2"]}  # checkpoints with tokenizers


def rows() -> list[dict[str, Any]]:
    """One for each variant, counted."""
    from tfx_transformer.convert.load import LAYOUTS
    from tfx_transformer.models import MODELS, create_model

    table = []
    for name, kind in MODELS.items():
        published = kind.published
        families = [layout.family for layout in LAYOUTS.get(kind, ())]
        families += TRANSLATORS.get(name, ())
        for variant in kind.variants:
            options, count = published.options_of(variant), published.counts.get(variant)
            table.append(
                {
                    "model": name,
                    "variant": variant,
                    "parameters": count or create_model(name, variant, **options).count_params(),
                    "is_published": count is not None,
                    "with": options,
                    "paper": published.papers,
                    "weights": list(dict.fromkeys(families)),
                }
            )
    return table


def show(as_json: bool = False) -> str:
    """The table, as text or as JSON."""
    table = json.loads(STORED.read_text())
    if as_json:
        return json.dumps(table, indent=2)
    lines = [("model", "variant", "parameters", "with", "weights of", "paper")]
    for row in table:
        parameters = f"{row['parameters']:,}{'' if row['is_published'] else ' *'}"
        options = " ".join(f"{key}={value}" for key, value in row["with"].items())
        weights = ", ".join(row["weights"]) or "-"
        lines.append((row["model"], row["variant"], parameters, options, weights, row["paper"]))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
    ]
    return "\n".join([*(line.rstrip() for line in text), "", "* not published: our own variant"])


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row) for row in rows())
    STORED.write_text(f"[\n{lines}\n]\n")
