"""Language modeling as a task: data, model, evaluation and pipeline."""

import math

from tfx_transformer.convert.keras_hub import SAMPLER, find_kind, load_keras_hub
from tfx_transformer.data.text.language import LanguageBatches, language_tokenizer
from tfx_transformer.pipelines import Generator
from tfx_transformer.pipelines.streaming import TextStream
from tfx_transformer.train.options import DecodingOptions, decoder_spec
from tfx_transformer.train.tasks.text import PlainTextTask, TokenEvaluator, stored_tokenizer

SAMPLES, PROMPT_LENGTH = 3, 24  # continuations at each evaluation; characters of their prompts


class LanguageModelTask(PlainTextTask):
    """Prediction of the next token of a text."""

    noun, kind = "language model", "generator"
    metric, unit = "log_prob", "tokens"

    def prepare(self, folder):
        data, text = self.recipe.data, self.texts["train"]
        size = None if data.tokenizer == "char" else data.vocab_size
        self.tokenizer = stored_tokenizer(
            folder, lambda: language_tokenizer(text, data.tokenizer, size)
        )
        self.data = self.evaluation_data(text, self.recipe.seed)
        self.units_per_batch = self.data.batch_size * data.max_length
        print(f"{data}: {self.data}")

    def evaluation_data(self, text, seed=None):
        """Without a seed windows do not overlap: the first tokens of each have little context."""
        data = self.recipe.data
        return LanguageBatches(text, self.tokenizer, data.max_length, data.batch_size, seed)

    def make_model(self):
        sizes = {"vocab_size": self.tokenizer.vocab_size, "max_length": self.recipe.data.max_length}
        return self.create_model(**sizes)

    def evaluator(self, model):
        text = self.texts["validation"]
        starts = [len(text) * i // SAMPLES for i in range(SAMPLES)]
        prompts = [text[start : start + PROMPT_LENGTH] for start in starts]
        decoder = {"kind": "sample", "temperature": 0.8, "seed": self.recipe.seed}
        generator = Generator(model, self.tokenizer, decoder)

        def sample():
            continued = zip(prompts, generator(prompts), strict=True)
            return [f"{prompt}|{rest}\n" for prompt, rest in continued]

        return TokenEvaluator(self, model, sample, shown=1)

    def pipeline(self, model, max_length=None, **decoding):
        spec = decoder_spec(self.recipe.decoding, **decoding)
        return Generator(model, self.tokenizer, spec, max_length)

    @classmethod
    def from_checkpoint(cls, folder, max_length=None, jit_compile=False, **decoding):
        """A CausalLM of keras-hub."""
        if find_kind(folder) != "CausalLM":
            return None
        spec = decoder_spec(DecodingOptions(**SAMPLER), **decoding)
        return load_keras_hub(folder, spec, max_length, jit_compile)

    def stream(self, model, **decoding) -> TextStream:
        """For one text, token by token."""
        return TextStream(model, self.tokenizer, decoder_spec(self.recipe.decoding, **decoding))

    def test(self, run, data, **options):
        """Bits per character compare models of different vocabularies."""
        scores, seconds, text = self.measure(run, data, options)
        bits = -scores["log_prob"] * scores["tokens"] / math.log(2)
        return scores | {
            "bits_per_character": bits / len(text),
            "characters": len(text),
            "tokens_per_second": scores["tokens"] / seconds,
        }


TASK = LanguageModelTask
