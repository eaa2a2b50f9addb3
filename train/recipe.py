"""What an experiment is made of: frozen values, from which the command line is generated."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Data:
    """What is translated.

    Sources: two line-aligned files, a .tsv file (both may end in .gz), `tfds:NAME/CONFIG`, or
    `embedded:emoji/en-ko`. The last two have splits of their own: they serve for all three.
    """

    train: tuple[str, ...] = ()
    """One source, or two files."""
    validation: tuple[str, ...] = ()
    """The same; empty takes the split of `train`'s source."""
    test: tuple[str, ...] = ()
    """The same."""
    vocab_size: int = 8000
    """Subwords; fewer if the text does not have so many."""
    tokenizer: Literal["unigram", "bpe"] = "unigram"
    joint: bool = True
    """One vocabulary for both languages."""
    max_length: int = 128
    """In tokens: longer pairs are left out of training, longer sources are cut in use."""
    token_budget: int = 4096
    """Positions in a batch, on each side."""
    nbest: int = 1
    """Above 1: subword regularisation, a new segmentation in each epoch out of so many."""


@dataclass(frozen=True)
class Model:
    """A model of the zoo; what is None is as the variant has it."""

    name: str = "transformer"
    variant: str = "tiny"
    dim: int | None = None
    depth: int | None = None
    num_heads: int | None = None
    mlp_dim: int | None = None
    dropout: float | None = None
    norm_first: bool | None = None
    tie: Literal["all", "output", "none"] | None = None
    position: str | None = None
    memory: Literal["final", "layerwise"] | None = None
    attention: str | None = None

    def overrides(self) -> dict[str, Any]:
        """The options that are set."""
        own = dataclasses.asdict(self)
        return {k: v for k, v in own.items() if v is not None and k not in ("name", "variant")}


@dataclass(frozen=True)
class Optimizer:
    """Adam, and how fast it goes."""

    learning_rate: float = 1e-3
    """The peak."""
    schedule: Literal["constant", "cosine", "inverse_sqrt"] = "inverse_sqrt"
    warmup_steps: int = 400
    beta_2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    """Above zero this is AdamW."""
    clip_norm: float | None = None
    """Largest norm of all gradients together."""
    accumulate: int = 1
    """Batches for one update."""
    ema: float = 0.0
    """Momentum of a moving average of the weights, which is then what is evaluated and exported."""


@dataclass(frozen=True)
class Decoding:
    """How translations are searched for."""

    kind: Literal["greedy", "beam", "sample"] = "beam"
    width: int = 4
    length_penalty: float = 0.6
    n_best: int = 1

    def spec(self) -> dict[str, Any]:
        """For DECODERS."""
        own = dataclasses.asdict(self)
        return own if self.kind == "beam" else {"kind": self.kind}


@dataclass(frozen=True)
class Search:
    """Another way to search than the recipe's; what is None is as the recipe has it."""

    kind: Literal["greedy", "beam", "sample"] | None = None
    width: int | None = None
    """Of the beam."""
    length_penalty: float | None = None
    n_best: int | None = None
    """Translations of each sentence, at most the beam's width."""
    max_length: int | None = None
    """In tokens: where a translation is cut off, and a source too."""

    def decoder(self, decoding: Decoding) -> dict[str, Any]:
        """For DECODERS."""
        own = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        own.pop("max_length", None)
        return dataclasses.replace(decoding, **own).spec()


@dataclass(frozen=True)
class Recipe:
    """One experiment."""

    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    optimizer: Optimizer = field(default_factory=Optimizer)
    decoding: Decoding = field(default_factory=Decoding)
    label_smoothing: float = 0.1
    steps: int = 10_000
    """Updates in all."""
    eval_steps: int = 500
    """Updates between two evaluations, each with a checkpoint."""
    eval_sentences: int = 500
    """Of the validation set, translated greedily at each evaluation."""
    patience: int = 0
    """Evaluations without a better BLEU until the run stops; 0 never stops early."""
    average: int = 1
    """Checkpoints averaged in the end."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    jit_compile: bool = False
    """Whether XLA compiles the training step."""
    seed: int = 0


def save_recipe(recipe: Recipe, path: Path) -> None:
    path.write_text(json.dumps(dataclasses.asdict(recipe), indent=2) + "\n")


def load_recipe(path: Path) -> Recipe:
    """The recipe of a run folder."""
    stored = json.loads(path.read_text())
    parts = {"data": Data, "model": Model, "optimizer": Optimizer, "decoding": Decoding}
    for name, part in parts.items():
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in stored[name].items()}
        stored[name] = part(**values)
    return Recipe(**stored)
