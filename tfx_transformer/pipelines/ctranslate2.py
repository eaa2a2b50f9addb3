"""A CTranslate2 export as a predictor: strings in, translations out, computed by its library."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import import_extra
from tfx_transformer.files import read_json
from tfx_transformer.pipelines import Translator
from tfx_transformer.pipelines.base import Predictor
from tfx_transformer.runtime import graph

FILE = "translate_batch.json"
END = "</s>"
OUTPUTS = {  # types and ranks
    "text": (tf.string, 1),
    "score": (tf.float32, 1),
    "n_best": (tf.string, 2),
    "n_best_score": (tf.float32, 2),
    "pieces": (tf.string, 2),  # (B, T)
    "source_pieces": (tf.string, 2),  # (B, S)
    "alignment": (tf.float32, 3),  # (B, T, S)
    "truncated": (tf.bool, 1),
}


def thread_options() -> dict[str, int]:
    """The threads of one operation that TensorFlow was given; batches share the other cores."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    if not threads:
        return {}
    return {
        "intra_threads": threads,
        "inter_threads": max(1, (os.cpu_count() or 1) // threads),
    }


class CTranslate2Pipeline(Predictor):
    """Translates strings with CTranslate2, called like the exported `Translator`.

    Args:
        folder: of the export, with the SentencePiece models of both sides.
        kind, options: as in export.json.
    """

    result = Translator.result

    def __init__(self, folder: Path, kind: str, options: dict[str, Any]):
        paths = [folder / f"{side}.spm" for side in ("source", "target")]
        for path in paths:
            if not path.exists():
                raise ValueError(f"{folder} takes subwords, not text: there is no {path.name}")
        ctranslate2 = import_extra("ctranslate2", "the format ctranslate2", "convert")
        import sentencepiece

        self.kind, self.options = kind, options
        self.source, self.target = [
            sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in paths
        ]
        self.arguments = read_json(folder / FILE)
        self.add_source_end = json.loads((folder / "config.json").read_text())["add_source_eos"]
        self.library = ctranslate2.Translator(str(folder), **thread_options())
        text = tf.TensorSpec([None], tf.string, name="text")
        predict = graph(self._predict, text)
        self.signatures = {"serving_default": predict.get_concrete_function()}

    def predict(self, batch):
        return self.signatures["serving_default"](tf.constant(batch))

    def find_explain(self):
        return self.predict  # has the alignment

    def _predict(self, text):
        types = [dtype for dtype, _ in OUTPUTS.values()]
        values = tf.numpy_function(self.translate, [text], types)
        n_best = self.arguments["num_hypotheses"]
        for value, (name, (_, rank)) in zip(values, OUTPUTS.items(), strict=True):
            value.set_shape([None, n_best if "n_best" in name else None, None][:rank])
        return dict(zip(OUTPUTS, values, strict=True))

    def translate(self, texts: np.ndarray) -> list[np.ndarray]:
        """Strings (B,) → the arrays of OUTPUTS."""
        limit = self.arguments["max_input_length"] - self.add_source_end
        whole = self.source.encode([text.decode() for text in texts], out_type=str)
        sources = [source[:limit] for source in whole]
        found = self.library.translate_batch(
            sources,
            **self.arguments,
            return_scores=True,
            return_attention=True,
            return_end_token=True,
        )
        end = [END] * self.add_source_end  # the library omits it and its attention
        n_best, scores, pieces, alignments = [], [], [], []
        for source, result in zip(sources, found, strict=True):
            is_empty = not source  # an empty text has an empty translation
            n_best.append(["" if is_empty else self.join(row) for row in result.hypotheses])
            scores.append([0.0] * len(result.scores) if is_empty else result.scores)
            pieces.append(result.hypotheses[0])
            alignments.append(
                [[*weights, *[1 - sum(weights)] * len(end)] for weights in result.attention[0]]
            )
        widths = [len(weights) for rows in alignments for weights in rows]
        shape = (len(texts), max(map(len, alignments), default=0), max(widths, default=0))
        alignment = np.zeros(shape, np.float32)  # (B, T, S)
        for i, rows in enumerate(alignments):
            for j, weights in enumerate(rows):
                alignment[i, j, : len(weights)] = weights
        best = pad(n_best, self.arguments["num_hypotheses"])
        score = np.array(scores, np.float32).reshape(best.shape)
        return [
            best[:, 0],
            score[:, 0],
            best,
            score,
            pad(pieces),
            pad([[*source, *end] for source in sources]),
            alignment,
            np.array([len(source) > limit for source in whole], bool),
        ]

    def join(self, pieces: list[str]) -> str:
        return self.target.decode([piece for piece in pieces if piece != END])


def pad(rows: list[list[str]], width: int = 0) -> np.ndarray:
    """Strings of each row as bytes (B, T), padded with empty ones."""
    width = max([width, *map(len, rows)])
    table = np.full((len(rows), width), b"", object)
    for i, row in enumerate(rows):
        table[i, : len(row)] = [piece.encode() for piece in row]
    return table
