"""BERT checkpoints from Hugging Face and keras-hub. Options of `BERT` that reproduce their outputs:

    hidden_act     activation
    "gelu"         "gelu", the default
    "gelu_new"     "gelu_tanh", as in Google's first code and in keras-hub

The norm's epsilon is 1e-12, the default. Heads that the model does not have, such as those of
pretraining, are ignored; so is keras-hub's head for masked tokens, which has another activation and
epsilon. Files of Hugging Face do not contain the number of attention heads: a wrong `num_heads` is
not detected.
"""

from dataclasses import dataclass, replace

from tfx_transformer.convert.layout import HUGGING_FACE_BLOCK, KERAS, KERAS_BLOCK, Layout

OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True)
class BERTLayout(Layout):
    """Ignores the heads that the model does not have; old files name norms as in TensorFlow.

    A file without a pooler, such as of BertForMaskedLM, leaves that of the model new, like a head.
    """

    def for_model(self, weights, model):
        super().for_model(weights, model)
        unused = [self.unused]
        if model.head != "mlm":
            unused.append(r"cls\.")
        elif not model.next_sentence:
            unused += [r"cls\.seq_relationship\.", r"(bert\.)?pooler\."]
        if model.head != "classify":
            unused.append(r"classifier\.")
        has_pooler = f"{self.prefix}pooler.dense.weight" in weights
        head = self.model_head if has_pooler else (*self.model_head, "pooler/")
        return replace(self, unused="|".join(unused), model_head=head)

    def split(self, name, array, model):
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        return {name: array}


HUGGING_FACE = BERTLayout(
    family="Hugging Face",
    pattern=r"(bert\.|)encoder\.layer\.\d+\.attention\.self\.",
    block="{prefix}encoder.layer.{i}.",
    head=("cls.", "classifier."),
    names=HUGGING_FACE_BLOCK
    | {
        "tokens": "{prefix}embeddings.word_embeddings.weight",
        "segments": "{prefix}embeddings.token_type_embeddings.weight",
        "position_embedding": "{prefix}embeddings.position_embeddings.weight",
        "first_norm": "{prefix}embeddings.LayerNorm.{leaf}",
        "self_norm": "{block}attention.output.LayerNorm.{leaf}",
        "mlp_norm": "{block}output.LayerNorm.{leaf}",
        "pooler": "{prefix}pooler.dense.{leaf}",
        "head_dense": "cls.predictions.transform.dense.{leaf}",
        "head_norm": "cls.predictions.transform.LayerNorm.{leaf}",
        "head_bias": "cls.predictions.bias",
        "head_next": "cls.seq_relationship.{leaf}",
        "head_class": "classifier.{leaf}",
    },
    tied=("cls.predictions.decoder.weight", "{prefix}embeddings.word_embeddings.weight"),
    unused=r"cls\.predictions\.decoder\.|.*embeddings\.position_ids$",
)


@dataclass(frozen=True)
class KerasHubLayout(Layout):
    """Ignores the pooler where the model has none."""

    def for_model(self, weights, model):
        has_pooler = model.head != "mlm" or model.next_sentence
        return self if has_pooler else replace(self, unused=rf"{self.unused}|layers/dense/")


KERAS_HUB = KerasHubLayout(
    family="keras-hub",
    pattern=r"()layers/transformer_encoder(?:_\d+)?/",
    block="layers/transformer_encoder{count}/",
    head=("task/",),
    names=KERAS_BLOCK
    | {
        "tokens": "layers/reversible_embedding/{leaf}",
        "segments": "layers/embedding/{leaf}",
        "position_embedding": "layers/position_embedding/{leaf}",
        "first_norm": "layers/layer_normalization/{leaf}",
        "pooler": "layers/dense/{leaf}",
        "head_class": "task/layers/dense/{leaf}",
    },
    leaves=KERAS,
    transposed=False,
    by_head=True,
    unused=r"task/layers/masked_lm_head/",
)
LAYOUTS = (HUGGING_FACE, KERAS_HUB)
