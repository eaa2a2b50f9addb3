"""TextStream: continues one text token by token, and yields each part as soon as it is decoded."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.tokenizer import END, PAD, START
from tfx_transformer.decoding import DECODERS, GreedyDecoder, SamplingDecoder
from tfx_transformer.decoding.decoder import DecodingCall
from tfx_transformer.pipelines.base import to_bytes


class TextStream:
    """Continues one text, token by token, without a length limit.

    When all positions of the model are used, the second half of them becomes the new context.

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
            raise ValueError(
                f"decoder must be greedy or sample to decode token by token; got {decoder}"
            )
        self.model, self.tokenizer, self.decoder = model, tokenizer, decoder
        self.advance = tf.function(self._advance, autograph=False)

    def __call__(self, prompt: str, max_length: int) -> Iterator[str]:
        """The parts of a continuation of at most `max_length` tokens.

        With a seed in the decoder's options the result is the same at every call.
        """
        ids = self.encode(prompt)
        shown = self.tokenizer.decode_list([ids])[0]
        for token in self.tokens(ids, max_length):
            ids = [*ids, token]
            text = self.tokenizer.decode_list([ids])[0]
            if len(text) > len(shown):  # a character of several bytes appears with its last one
                yield text[len(shown) :]
                shown = text

    def encode(self, prompt: str) -> list[int]:
        return self.tokenizer.encode_list([to_bytes(prompt).decode()])[0]

    def truncates(self, prompt: str) -> bool:
        """Whether a prompt is longer than the model can read; only its end is then read."""
        return len(self.encode(prompt)) >= self.model.max_length

    def tokens(self, ids: list[int], max_length: int) -> Iterator[int]:
        """The tokens that follow, without END."""
        positions, rng = self.model.max_length, np.random.default_rng(self.decoder.seed)
        row, done = [START, *ids[1 - positions :]], 0
        for _ in range(max_length):
            if len(row) > positions:
                row, done = [START, *row[-(positions // 2) :]], 0
            if not done:
                carry = self.model.initial_state(tf.zeros([1]), positions)["carry"]
            if done < len(row) - 1:  # read a new context in one pass
                state = {"constant": {}, "carry": carry}
                carry = self.model.step(tf.constant([row[done:-1]]), state, done)[1]["carry"]
            done = len(row)
            known = np.pad([row], ((0, 0), (0, positions + 1 - done)), constant_values=PAD)
            random = tf.constant([rng.random()], tf.float32)
            token, carry = self.advance(
                tf.constant(known, tf.int32), carry, tf.constant(done - 1), random
            )
            row.append(int(token))
            if row[-1] == END:
                return
            yield row[-1]

    def _advance(self, known, carry, index, random):
        """One decoding step after the tokens (1, 1 + positions) up to `index` → token, state."""
        call = DecodingCall(
            step=self.model.step,
            constant={},
            carry=carry,
            batch_size=1,
            max_length=self.model.max_length,
            start_id=START,
            end_id=END,
            pad_id=PAD,
        )
        _, allowed, carry = self.decoder.advance(call, known, carry, index)
        return self.decoder.choose(allowed, random)[0], carry
