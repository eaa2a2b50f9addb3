"""BERT: checkpoints of Hugging Face. The options of `BERT` that give their numbers:

    hidden_act     activation
    "gelu"         "gelu", the default
    "gelu_new"     "gelu_tanh", as Google's first code computes

The norm's epsilon is 1e-12, the default. A file often has more than is asked for, such as the heads
of pretraining: what the model has no layer for is left out. The number of heads of attention is
in no file: a wrong one goes unseen.
"""

from dataclasses import dataclass, replace

import numpy as np

from tfx_transformer.convert.layout import Layout

OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True)
class BERTLayout(Layout):
    """Norms of old files have TensorFlow's words."""

    def adapt(self, weights, model):
        table = f"{self.begin}embeddings.word_embeddings.weight"
        check_tied(weights, "cls.predictions.decoder.weight", table)
        unused = [self.unused]
        if model.head != "mlm":
            unused.append(r"cls\.")
        elif not model.next_sentence:
            unused += [r"cls\.seq_relationship\.", r"(bert\.)?pooler\."]
        if model.head != "classify":
            unused.append(r"classifier\.")
        return replace(self, unused="|".join(unused))

    def cut(self, name, array, model):
        for old, new in OLD.items():
            name = name.replace(old, new)
        return {name: array}


def check_tied(weights, output: str, table: str) -> None:
    """Our output layer is the table of tokens: if theirs is not, its numbers would be lost."""
    if {output, table} <= weights.keys() and not np.array_equal(weights[output], weights[table]):
        raise ValueError(f"{output} must be the same as {table}, as in our model; it differs")


HUGGING_FACE = BERTLayout(
    family="Hugging Face",
    mark=r"(bert\.|)encoder\.layer\.\d+\.attention\.self\.",
    block="{begin}encoder.layer.{i}.",
    head=("cls.", "classifier."),
    names={
        "tokens": "{begin}embeddings.word_embeddings.weight",
        "segments": "{begin}embeddings.token_type_embeddings.weight",
        "place": "{begin}embeddings.position_embeddings.weight",
        "first_norm": "{begin}embeddings.LayerNorm.{leaf}",
        "self_attention/query": "{block}attention.self.query.{leaf}",
        "key": "{block}attention.self.key.{leaf}",
        "value": "{block}attention.self.value.{leaf}",
        "self_attention/output": "{block}attention.output.dense.{leaf}",
        "self_norm": "{block}attention.output.LayerNorm.{leaf}",
        "mlp/up": "{block}intermediate.dense.{leaf}",
        "mlp/down": "{block}output.dense.{leaf}",
        "mlp_norm": "{block}output.LayerNorm.{leaf}",
        "pooler": "{begin}pooler.dense.{leaf}",
        "head_dense": "cls.predictions.transform.dense.{leaf}",
        "head_norm": "cls.predictions.transform.LayerNorm.{leaf}",
        "head_bias": "cls.predictions.bias",
        "head_next": "cls.seq_relationship.{leaf}",
        "head_class": "classifier.{leaf}",
    },
    unused=r"cls\.predictions\.decoder\.|.*embeddings\.position_ids$",
)
LAYOUTS = (HUGGING_FACE,)
