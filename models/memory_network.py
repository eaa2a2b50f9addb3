"""End-to-end memory network: answers questions about stories (arXiv:1503.08895).

    question → embed → u
    each hop: weights = softmax(u · story in table A);  u = u + Σ weights · story in table C
    u → logits of the answer

A sentence is one vector: the sum of its words, weighted by their positions. Its place in the story,
counted from the last sentence, is a learned vector that is added to it.
"""

from typing import Literal

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.layers import TokenEmbedding
from tfx_transformer.layers.dense import apply_dense
from tfx_transformer.models.base import BaseModel, Published

NORMAL = {"class_name": "RandomNormal", "config": {"stddev": 0.1}}  # of all weights
FAR = -1e9  # the score of padding


class MemoryNetwork(BaseModel):
    """Answers questions: {"story": (B, N, W), "question": (B, M)} word ids → logits (B, V).

    The N sentences of a story are in order, followed by padding; id 0 is padding. An answer is one
    id of the vocabulary.

    Args:
        vocab_size: V, words and answers.
        dim: width of sentence vectors.
        num_hops: how often the story is read.
        sentence: the vector of a sentence: "bag" (the sum of its words) or "position" (the sum
            weighted by position, which depends on the order of the words).
        tie: which tables are shared: "adjacent" (the output table of a hop is the input table of
            the next one; the first also embeds the question, the last predicts the answer) or
            "layerwise" (all hops share both tables, and a matrix maps the question between hops).
        max_sentences: learned places in a story; earlier sentences share the first.
        time_noise: in training, the rate of empty sentences that are imagined between the others,
            so that places vary.
        linear_start: train without the softmax of the hops until `end_linear_start`.
    """

    published = Published("1503.08895", {"vocab_size": 177})
    variants = {  # those of the paper, for one and for all tasks of bAbI
        "test": dict(dim=6, num_hops=2, max_sentences=5),
        "single": dict(dim=20, num_hops=3),
        "joint": dict(dim=50, num_hops=3),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_hops: int = 3,
        sentence: Literal["bag", "position"] = "position",
        tie: Literal["adjacent", "layerwise"] = "adjacent",
        max_sentences: int = 50,
        time_noise: float = 0.1,
        linear_start: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(num_hops=num_hops, max_sentences=max_sentences)
        check_choice("bag", "position", sentence=sentence)
        check_choice("adjacent", "layerwise", tie=tie)
        check_rate(time_noise=time_noise)
        self.random = keras.random.SeedGenerator()
        # adjacent: A¹, C¹ = A², …, Cᴷ; layerwise: A, C
        count = num_hops + 1 if tie == "adjacent" else 2
        self.memories = [self.make(SentenceMemory, name=f"memory_{i}") for i in range(count)]
        self.question = self.memories[0]
        if tie == "layerwise":
            self.question = self.make(SentenceMemory, max_sentences=0, name="question")

    def input_shapes(self):
        return {"story": (None, None, None), "question": (None, None)}

    def build_layers(self):
        for memory in self.memories:
            memory.build((None, None, None))
        if self.tie == "layerwise":
            self.question.build((None, None))
            self.between, self.head = (
                keras.layers.Dense(
                    units,
                    use_bias=False,
                    kernel_initializer=keras.initializers.get(NORMAL),
                    dtype=self.dtype_policy,
                    name=name,
                )
                for name, units in (("between", self.dim), ("head", self.vocab_size))
            )
            self.between.build((None, self.dim))
            self.head.build((None, self.dim))
        self.is_linear = self.add_weight(
            shape=(),
            initializer="ones" if self.linear_start else "zeros",
            trainable=False,
            name="is_linear",
        )

    def layer_groups(self):
        first = [[self.question]] if self.tie == "layerwise" else []
        return [*first, *([memory] for memory in self.memories)]

    def call(self, inputs, training=None):
        return self.read(inputs, training=training)[0]

    def read(self, inputs, training=None):
        """The logits (B, V), and the weights of the sentences (B, N) in each hop."""
        story, question = inputs["story"], inputs["question"]
        is_sentence = ops.any(ops.not_equal(story, 0), axis=-1)  # (B, N)
        times = self.times(is_sentence, training)
        adjacent = self.tie == "adjacent"
        u, weights = self.question.embed(question), []  # (B, D)
        for hop in range(self.num_hops):
            i = hop if adjacent else 0
            scores = ops.einsum("bnd,bd->bn", self.memories[i](story, times), u)
            weights.append(self.weigh(scores, is_sentence))
            output = self.memories[i + 1](story, times)
            read = ops.einsum("bn,bnd->bd", ops.cast(weights[-1], u.dtype), output)
            u = read + (u if adjacent else apply_dense(self.between, u))
        if adjacent:
            return self.memories[-1].words.logits(u), weights
        return apply_dense(self.head, u), weights

    def weigh(self, scores, is_sentence):
        """Softmax over the sentences, in float32; the scores themselves in a linear start."""
        scores = ops.cast(scores, "float32")
        softmax = ops.softmax(ops.where(is_sentence, scores, FAR), axis=-1)
        weights = ops.where(ops.cast(self.is_linear, "float32") > 0, scores, softmax)
        return ops.where(is_sentence, weights, 0.0)

    def times(self, is_sentence, training=None):
        """The places (B, N) of the sentences, counted from the last one, which has 0."""
        steps = ops.cast(is_sentence, "int32")
        if training and self.time_noise:
            draws = keras.random.uniform(ops.shape(is_sentence), seed=self.random)
            steps = steps * (1 + ops.cast(draws < self.time_noise, "int32"))
        later = ops.sum(steps, axis=1, keepdims=True) - ops.cumsum(steps, axis=1)
        return ops.minimum(later, self.max_sentences - 1)

    def end_linear_start(self):
        """From now on the hops have their softmax."""
        self.is_linear.assign(0.0)

    def attention_maps(self, inputs):
        """{"hop_0/cross": (B, 1, 1, N), …}: the weight of each sentence in each hop."""
        weights = self.read(inputs)[1]
        return {f"hop_{i}/cross": values[:, None, None] for i, values in enumerate(weights)}


class SentenceMemory(Serializable, keras.layers.Layer):
    """Sentence vectors from one table of words: ids (B, N, W) and places (B, N) → (B, N, D).

    Args:
        vocab_size: size of the table.
        dim: D.
        sentence: "bag" or "position".
        max_sentences: number of learned places; 0 has none.
    """

    def __init__(self, vocab_size, dim, sentence="position", max_sentences=0, **kwargs):
        super().__init__(**kwargs)
        options = {"scale": False, "initializer": NORMAL, "dtype": self.dtype_policy}
        self.words = TokenEmbedding(vocab_size, dim, name="words", **options)
        self.places = None
        if max_sentences:
            self.places = TokenEmbedding(max_sentences, dim, pad_id=None, name="places", **options)

    def build(self, ids_shape):
        self.words.build(ids_shape)
        if self.places:
            self.places.build(ids_shape[:-1])

    def call(self, ids, times):
        return self.embed(ids) + self.places(times)

    def embed(self, ids):
        """Ids (…, W) → the vector (…, D) of each sentence."""
        if self.sentence == "bag":
            return ops.sum(self.words(ids), axis=-2)
        # Σ (1 - j/J) x - k/D Σ (1 - 2j/J) x, for word j of J and feature k of D
        x = ops.take(self.words.table, ids, axis=0)  # (…, W, D)
        weights = ops.cast(position_weights(ids), x.dtype)  # (…, 2, W)
        first, second = ops.split(ops.matmul(weights, x), 2, axis=-2)
        dim = ops.arange(1, self.dim + 1, dtype="float32") / self.dim
        return ops.squeeze(first - ops.cast(dim, x.dtype) * second, axis=-2)


def position_weights(ids):
    """Ids (…, W) → 1 - j/J and 1 - 2j/J for the j-th of J words, (…, 2, W); 0 for padding."""
    is_word = ops.cast(ops.not_equal(ids, 0), "float32")
    length = ops.maximum(ops.sum(is_word, axis=-1, keepdims=True), 1.0)
    part = ops.cumsum(is_word, axis=-1) / length
    return ops.stack([is_word * (1 - part), is_word * (1 - 2 * part)], axis=-2)
