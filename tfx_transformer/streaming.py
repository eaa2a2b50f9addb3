"""A text as it is written: each piece as soon as the model has drawn it."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tfx_transformer.data.tokenizer import END, PAD, START
from tfx_transformer.decoding import DECODERS, GreedyDecoder, SamplingDecoder
from tfx_transformer.decoding.decoder import Task

BROKEN = "\ufffd"  # stands for bytes that are no character yet


class Stream:
    """Continues one text, token by token, as far as one likes.

    A model has so many positions. Where they are full, the latter half of them moves to the front,
    and the text goes on from there.

    Args:
        model: has `initial_state`, `step` and `max_length`, its number of positions.
        tokenizer: of the texts.
        decoder: "greedy" or "sample", or a dict of its options.
    """

    def __init__(self, model, tokenizer, decoder="sample"):
        decoder = DECODERS.make(decoder)
        if isinstance(decoder, GreedyDecoder):
            decoder = SamplingDecoder(**vars(decoder), top_k=1)
        if not isinstance(decoder, SamplingDecoder):
            raise ValueError(f"only greedy and sample write one token at a time; got {decoder}")
        self.model, self.tokenizer, self.decoder = model, tokenizer, decoder
        self.advance = tf.function(self._advance, autograph=False)

    def __call__(self, prompt: str, max_length: int) -> Iterator[str]:
        """The parts of a continuation of at most `max_length` tokens.

        The same seed of the decoder draws the same.
        """
        ids = self.tokenizer.encode_list([prompt])[0]
        shown = text = self.tokenizer.decode_list([ids])[0]
        for token in self.tokens(ids, max_length):
            ids = [*ids, token]
            text = self.tokenizer.decode_list([ids])[0]
            whole = text.rstrip(BROKEN)
            if len(whole) > len(shown):
                yield whole[len(shown) :]
                shown = whole
        if len(text) > len(shown):
            yield text[len(shown) :]

    def tokens(self, ids: list[int], max_length: int) -> Iterator[int]:
        """The tokens that follow, without END."""
        positions, rng = self.model.max_length, np.random.default_rng(self.decoder.seed)
        row, done = [START, *ids[1 - positions :]], 0
        for _ in range(max_length):
            if len(row) > positions:
                row, done = [START, *row[-(positions // 2) :]], 0
            if not done:
                moving = self.model.initial_state(tf.zeros([1]), positions)["moving"]
            chance = tf.constant([rng.random()], tf.float32)
            while done < len(row):
                known = np.pad([row], ((0, 0), (0, positions + 1 - len(row))), constant_values=PAD)
                token, moving = self.advance(
                    tf.constant(known, tf.int32), moving, tf.constant(done), chance
                )
                done += 1
            row.append(int(token))
            if row[-1] == END:
                return
            yield row[-1]

    def _advance(self, known, moving, index, chance):
        """One step behind what is known, (1, 1 + positions), up to `index` → a token, the state."""
        task = Task(
            step=self.model.step,
            fixed={},
            moving=moving,
            batch_size=1,
            copies=1,
            max_length=self.model.max_length,
            start_id=START,
            end_id=END,
            pad_id=PAD,
            forced=None,
            limit=None,
        )
        _, allowed, moving = self.decoder.advance(task, known, moving, index)
        return self.decoder.choose(allowed, chance)[0], moving
