"""The friendly API's way from a request to a model's inputs, and from its outputs to an answer."""

import base64
import binascii
import math
from typing import Any

import numpy as np

from tfx_transformer.serving.errors import InvalidRequest
from tfx_transformer.serving.schemas import (
    CaptionRequest,
    ClassifyRequest,
    DrawRequest,
    TranslateRequest,
)
from tfx_transformer.serving.tensors import decode_base64, to_json

EXPLAIN = "explain"  # the signature with attention weights
SEEDED = "seeded"  # the signature whose texts have a seed each
COUNTS = {  # kind: the field of a request, and the output with as many columns as it may ask for
    "translator": ("n_best", "n_best"),
    "captioner": ("n_best", "n_best"),
    "classifier": ("top_k", "labels"),
    "text_classifier": ("top_k", "labels"),
    "text_to_image": ("count", "n_best_bytes"),
}
EXPORT_OPTIONS = {"n_best": "n-best", "top_k": "top-k", "count": "n-best"}  # of these fields
Outputs = dict[str, np.ndarray]


def show_translations(outputs: Outputs, asked: TranslateRequest) -> dict[str, Any]:
    rows = show_generated(outputs, asked.n_best)
    truncated = outputs.get("truncated", np.zeros(len(rows), bool)).tolist()
    for i, row in enumerate(rows):
        row["truncated"] = truncated[i]
        if asked.alignment or asked.attention:
            source, target = pieces(outputs["source_pieces"][i]), pieces(outputs["pieces"][i])
            size = (len(target), len(source))
            row |= {"source_pieces": source, "pieces": target}
            row["alignment"] = weights(outputs["alignment"][i], size)
            if asked.attention:
                row["attention"] = weights(outputs["attention"][i], size)
    return {"translations": rows}


def show_predictions(outputs: Outputs, asked: ClassifyRequest) -> dict[str, Any]:
    labels, scores = to_json(outputs["labels"]), to_json(outputs["scores"])
    readable = outputs.get("is_readable", np.ones(len(labels), bool)).tolist()
    rows = []
    for i, is_readable in enumerate(readable):
        found = list(zip(labels[i], scores[i], strict=True))[: asked.top_k if is_readable else 0]
        classes = [{"label": label, "score": finite(score)} for label, score in found]
        row: dict[str, Any] = {"classes": classes, "is_readable": is_readable}
        if "truncated" in outputs:
            row["truncated"] = bool(outputs["truncated"][i])
        if asked.rollout:
            row["rollout"] = weights(outputs["rollout"][i])
        rows.append(row)
    return {"predictions": rows}


def show_captions(outputs: Outputs, asked: CaptionRequest) -> dict[str, Any]:
    rows = show_generated(outputs, asked.n_best)
    for i, row in enumerate(rows):
        row["is_readable"] = bool(outputs["is_readable"][i])
        if asked.attention:
            row["pieces"] = pieces(outputs["pieces"][i])
            row["weights"] = weights(outputs["weights"][i, : len(row["pieces"])])
    return {"captions": rows}


def show_drawings(outputs: Outputs, asked: DrawRequest) -> dict[str, Any]:
    files, scores = outputs["n_best_bytes"].tolist(), outputs["n_best_score"].tolist()
    rows = []
    for i, truncated in enumerate(outputs["truncated"].tolist()):
        best = list(zip(files[i], scores[i], strict=True))[: asked.count]
        images = [
            {"image": base64.b64encode(file).decode(), "score": finite(score)}
            for file, score in best
        ]
        rows.append({"images": images, "truncated": truncated})
    return {"drawings": rows}


def find_signature(model: Any, asked: Any) -> str:
    """The signature that takes the seed, or has the attention weights that are asked for."""
    if getattr(asked, "seed", None) is not None:
        if SEEDED not in model.signatures:
            raise InvalidRequest(f"{model.name} takes no seed: export it with --kind sample")
        return SEEDED
    name, is_explained = "serving_default", getattr(asked, "rollout", False)
    if isinstance(asked, TranslateRequest):
        has_alignment = "alignment" in model.signatures[name].outputs  # CTranslate2, old exports
        is_explained = asked.attention or (asked.alignment and not has_alignment)
    name = EXPLAIN if is_explained else name
    if name not in model.signatures:
        raise InvalidRequest(f"{model.name} has no attention weights to return")
    return name


def largest_count(model: Any) -> dict[str, int]:
    """The largest n_best or top_k of a model, by the name of the field; {} if it has none."""
    field, output = COUNTS.get(model.kind, ("", ""))
    spec = model.signatures["serving_default"].outputs.get(output)
    size = spec.shape[-1] if spec is not None and spec.shape.rank == 2 else None
    return {} if size is None else {field: size}


def check_count(model: Any, asked: Any) -> None:
    """Refuses an n_best or top_k of the client above that of the model."""
    for name, most in largest_count(model).items():
        if name in asked.model_fields_set and getattr(asked, name) > most:
            is_all = most == len(model.options.get("class_names", ()))
            way = (
                "it has no more classes" if is_all else f"export it with --{EXPORT_OPTIONS[name]} N"
            )
            raise InvalidRequest(f"{name} must be at most {most} for {model.name}: {way}")


def make_inputs(model: Any, signature: str, items: list[Any], asked: Any) -> dict[str, np.ndarray]:
    """Strings or files, and for each its seed if one is given, as the inputs of a signature."""
    array = np.empty(len(items), object)
    try:
        array[:] = [item.encode() if isinstance(item, str) else item for item in items]
    except UnicodeEncodeError:
        raise InvalidRequest("text must have no lone surrogates") from None
    if signature == SEEDED:
        return {"text": array, "seed": np.full(len(items), asked.seed)}
    (name,) = model.signatures[signature].inputs
    return {name: array}


def read_images(given: str | list[str]) -> list[bytes]:
    """The bytes of image files in base64; a data URL has a prefix."""
    try:
        return [decode_base64(item.partition("base64,")[2] or item) for item in as_list(given)]
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest("image must be base64, or the body of the request") from None


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def show_generated(outputs: Outputs, count: int) -> list[dict[str, Any]]:
    """Texts with scores, and the `count` best of each."""
    texts, scores = to_json(outputs["text"]), to_json(outputs["score"])
    lists = zip(to_json(outputs["n_best"]), to_json(outputs["n_best_score"]), strict=True)
    candidates = [[candidate(*x) for x in zip(*pair, strict=True)][:count] for pair in lists]
    rows = zip(texts, scores, candidates, strict=True)
    return [candidate(text, score) | {"n_best": best} for text, score, best in rows]


def candidate(text: str, score: float) -> dict[str, Any]:
    return {"text": text, "score": finite(score)}


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def pieces(row: np.ndarray) -> list[str]:
    """Subwords without padding."""
    return [piece for piece in to_json(row) if piece]


def weights(array: np.ndarray, size: tuple[int, ...] = ()) -> list[Any]:
    """Attention weights with four decimals, without the padding of the last axes."""
    index: Any = (..., *(slice(length) for length in size))
    return np.nan_to_num(array[index].astype(np.float64)).round(4).tolist()
