"""All models of the zoo in a table: variants, sizes, papers, and whose weights they can take."""

import json
from typing import Any

from tfx_transformer.convert.load import LAYOUTS
from tfx_transformer.models import MODELS, create_model
from tfx_transformer.models.published import PUBLISHED

WHOLE = {"Transformer": ["Marian", "CTranslate2"]}  # these come with their texts


def rows() -> list[dict[str, Any]]:
    """One for each variant."""
    found = []
    for name, kind in MODELS.items():
        published = PUBLISHED[name]
        families = [layout.family for layout in LAYOUTS.get(kind.__name__, ())]
        families += WHOLE.get(kind.__name__, ())
        for variant in kind.variants:
            options, count = published.options_of(variant), published.counts.get(variant)
            found.append(
                {
                    "model": name,
                    "variant": variant,
                    "parameters": count or count_parameters(name, variant, options),
                    "is_published": count is not None,
                    "with": options,
                    "paper": published.papers,
                    "weights": list(dict.fromkeys(families)),
                }
            )
    return found


def count_parameters(name: str, variant: str, options: dict[str, Any]) -> int:
    """Of a model that is built; those without a published count are small."""
    model = create_model(name, variant, **options)
    size = getattr(model, "image_size", None)
    if size is None or "vocab_size" in options:
        model.build({"source": (None, None), "target": (None, None)})
    else:
        model.build((None, size, size, 3))
    return model.count_params()


def show(as_json: bool = False) -> str:
    """The table, as text or as JSON."""
    table = rows()
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
    return "\n".join([*(line.rstrip() for line in text), "", "* our own size"])
