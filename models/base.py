"""Base classes of all models: papers, names, building, decoding state, checks of images."""

from dataclasses import dataclass, field
from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_rate, check_whole
from tfx_transformer.config import Serializable, argument_names
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.recurrent import RecurrentDecoder

Shape = tuple[int | None, ...]
MAX_PIXEL = 50.0  # normalized pixels are far below it, those of 8 bits are not
HOW_TO_NORMALIZE = (
    "For the range -1 to 1 use images / 127.5 - 1; "
    "the Classifier pipeline decodes and normalizes image files"
)
# arguments that are checked wherever a model has them
SIZES = ("vocab_size", "dim", "depth", "num_heads", "embedding_dim", "image_size", "channels")
RATES = ("dropout", "drop_path")


@dataclass(frozen=True)
class Published:
    """Facts about one model.

    Args:
        papers: numbers on arXiv, or a title.
        options: arguments with which the variants have the published counts.
        counts: parameters of the variants; those that are missing are not published. Where a paper
            has sizes only, the tests derive the count from them.
        variant_options: further arguments of single variants.
    """

    papers: str
    options: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    variant_options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def options_of(self, variant: str) -> dict[str, Any]:
        return self.options | self.variant_options.get(variant, {})


class BaseModel(Serializable, keras.Model):
    """A Keras model that declares its input shapes and the order of its layers.

    A subclass has class attributes `variants`, sizes by name, and `published`, its papers, and
    defines `input_shapes`, `build_layers`, `layer_groups`, `call` and `attention_maps`. Its default
    name is that of its file, which is also its name in MODELS.
    """

    published: Published
    variants: dict[str, dict[str, Any]]

    def __init__(self, **kwargs):
        model = next(kind for kind in type(self).__mro__ if "variants" in vars(kind))
        kwargs["name"] = kwargs.get("name") or model.__module__.rpartition(".")[2]
        super().__init__(**kwargs)
        for name in argument_names(type(self)):
            value = getattr(self, name, None)
            if name in SIZES:
                for size in value if isinstance(value, list | tuple) else [value]:
                    check_positive(**{name: size})
            if name in RATES:
                check_rate(**{name: value})

    def input_shapes(self) -> Shape | dict[str, Shape]:
        """Shapes of the inputs, with None for any size; the default is tokens (B, T)."""
        return None, None

    def build(self, input_shape=None):
        """Create the weights, once; `input_shape` is not used, see `input_shapes`."""
        if not self.built:
            self.build_layers()

    def make_blocks(self, kind, depth: int, name: str = "block", **options) -> list[Any]:
        """`depth` blocks by `make`; the rate of `drop_path` grows linearly from 0."""
        rate = options.pop("drop_path", getattr(self, "drop_path", 0.0))
        rates = [rate * i / max(depth - 1, 1) for i in range(depth)]
        return [
            self.make(kind, drop_path=rates[i], name=f"{name}_{i}", **options) for i in range(depth)
        ]

    def layer_groups(self) -> list[list[keras.layers.Layer | keras.Variable]]:
        """Layers and single weights from input to output: embeddings, then blocks in order.

        Layer-wise learning rate decay gives each group a rate; weights in no group, such as those
        of the head, get the full rate.
        """
        raise TypeError(f"{type(self).__name__} does not define layer_groups")


class RecurrentModel(BaseModel):
    """A model that generates tokens by a `RecurrentDecoder`, its `decoder`.

    A subclass defines `encode(inputs, training=None) -> constant, carry`, the decoder's state.
    """

    decoder: RecurrentDecoder

    def build_first_states(self, name: str, width: int):
        """Dense layers to the decoder's first states: one for h, of an LSTM also one for c."""
        states = range(2 if self.cell == "lstm" else 1)
        return [
            [build_dense(self, f"{name}_{i}_{j}", width, self.dim) for j in states]
            for i in range(self.depth)
        ]

    def initial_state(self, inputs, max_length):
        """State of decoding; the size of a recurrent state does not depend on `max_length`."""
        constant, carry = self.encode(inputs)
        return {"constant": constant, "carry": carry}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        constant = state["constant"]
        logits, carry = self.decoder(chunk, constant, state["carry"], index=index)
        return logits if chunk is tokens else logits[:, 0], {"constant": constant, "carry": carry}

    def attention_maps(self, inputs):
        """{"decoder/cross": (B, H, T, S)}; empty without attention."""
        _, scores, _ = self.decoder.attend(inputs["target"], *self.encode(inputs))
        return {"decoder/cross": scores["weights"]} if scores else {}


class CausalModel(BaseModel):
    """A model that generates tokens by Transformer blocks with caches, its `blocks`.

    A subclass has `max_length`, its number of positions, a `TokenEmbedding` named `tokens`, and
    defines `decode(tokens, caches=None, index=0, transposed=None, training=None)`: (B, T) at
    positions index … → logits (B, T, V), attention maps, new caches.
    """

    def call(self, tokens, training=None):
        return self.decode(tokens, training=training)[0]

    def initial_state(self, inputs, max_length, grow=False):
        """State of decoding: empty caches of `max_length` tokens for each of the B rows of inputs.

        The values of the inputs are not used: the decoder reads the prompt, its prefix. With `grow`
        the caches grow with the tokens; see `Attention.empty_cache`.
        """
        if isinstance(max_length, int) and max_length > self.max_length:
            raise ValueError(
                f"max_length must not exceed the model's {self.max_length} positions; "
                f"got max_length={max_length}"
            )
        batch_size = ops.shape(inputs)[0]
        caches = [block.empty_cache(batch_size, max_length, grow) for block in self.blocks]
        shared = {"output": self.tokens.transpose()}
        return {"shared": shared, "constant": {}, "carry": {"caches": caches}}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        caches = state["carry"]["caches"]
        transposed = (state.get("shared") or {}).get("output")
        logits, _, caches = self.decode(chunk, caches, index, transposed)
        state = state | {"carry": {"caches": caches}}
        return logits if chunk is tokens else logits[:, 0], state

    def attention_maps(self, tokens):
        """{"block_0/self": (B, H, T, T), …}."""
        return self.decode(tokens)[1]


class ImageModel(BaseModel):
    """An image classifier: images (B, h, w, C) → logits (B, num_classes), or features (B, D).

    A subclass defines `encode(images, training=None) -> features, attention maps`, and calls
    `build_head`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        check_whole(num_classes=self.num_classes)

    def input_shapes(self):
        return None, self.image_size, self.image_size, self.channels

    def build_head(self, dim):
        if self.num_classes:
            self.head = build_dense(self, "head", dim, self.num_classes)

    def call(self, images, training=None):
        features, _ = self.encode(images, training=training)
        return apply_dense(self.head, features) if self.num_classes else features

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}; class tokens come first among the N."""
        return self.encode(images)[1]


def run_blocks(blocks, x, contexts=None, caches=None, masks=None, **options):
    """Apply Transformer blocks to x (B, T, D) → their outputs, attention maps by name, new caches.

    contexts: the context of each block with cross-attention.
    masks: the `attention_mask` of each block, if they differ.
    """
    outputs, maps, new_caches = [], {}, []
    for i, block in enumerate(blocks):
        context, cache = contexts and contexts[i], caches and caches[i]
        mask = {"attention_mask": masks[i]} if masks else {}
        x, scores, cache = block.attend(x, context, cache=cache, **mask, **options)
        maps |= {f"{block.name}/{kind}": values for kind, values in scores.items()}
        outputs.append(x)
        new_caches.append(cache)
    return outputs, maps, new_caches


def check_images(images, channels: int) -> None:
    """Raise unless images are a batch (B, height, width, C) of floating-point pixels."""
    shape, dtype = tuple(images.shape), keras.backend.standardize_dtype(images.dtype)
    if len(shape) != 4 or shape[-1] != channels:
        hint = "; add a batch axis: images[None]" if len(shape) == 3 else ""
        raise ValueError(
            f"images must have shape (B, height, width, {channels}); got {shape}{hint}"
        )
    if "float" not in dtype:
        raise ValueError(
            "images must be floating-point, in the range that the model was trained on; "
            f"got {dtype}. {HOW_TO_NORMALIZE}"
        )
    if hasattr(images, "numpy") and 0 not in shape:  # not while a graph is traced
        largest = float(ops.max(ops.abs(images)))
        if largest > MAX_PIXEL:
            raise ValueError(
                f"images must be normalized, about -3 to 3; got values up to {largest:g}. "
                f"{HOW_TO_NORMALIZE}"
            )
