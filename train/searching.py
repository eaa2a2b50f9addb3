"""How sentences are searched for, in a recipe and for once."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["greedy", "beam", "sample"]
OPTIONS: dict[str, tuple[str, ...]] = {
    "greedy": (),
    "beam": ("width", "length_penalty", "n_best"),
    "sample": ("temperature", "top_k", "top_p"),
}


@dataclass(frozen=True)
class Decoding:
    """How sentences are searched for: greedily, by a beam, or drawn."""

    kind: Kind = "beam"
    width: int = 4
    length_penalty: float = 0.6
    n_best: int = 1
    """Of a beam, or how many are drawn."""
    temperature: float = 1.0
    """From here on: of what is drawn. Below 1 the likely becomes likelier."""
    top_k: int = 0
    """Out of so many tokens; 0 takes all."""
    top_p: float = 1.0
    """Out of the likeliest that make up this share."""

    def spec(self) -> dict[str, Any]:
        """For DECODERS."""
        own = {name: getattr(self, name) for name in OPTIONS[self.kind]}
        return {"kind": self.kind} | own | ({"num_samples": self.n_best} if "top_k" in own else {})


@dataclass(frozen=True)
class Search:
    """Another way to search than the recipe's; what is None is as the recipe has it."""

    kind: Kind | None = None
    width: int | None = None
    """Of the beam."""
    length_penalty: float | None = None
    n_best: int | None = None
    """Answers to each sentence; of a beam, at most its width."""
    temperature: float | None = None
    """Of what is drawn."""
    top_p: float | None = None
    """The same."""
    max_length: int | None = None
    """In tokens: where an answer is cut off, and the source of a translation too."""

    def decoder(self, decoding: Decoding) -> dict[str, Any]:
        """For DECODERS."""
        own = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        own.pop("max_length", None)
        return dataclasses.replace(decoding, **own).spec()
