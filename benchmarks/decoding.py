"""Decoding speed of the exported translator compared with its peers: base size, 32 new tokens.

    python benchmarks/decoding.py [--rounds 5] [--widths 1 4] [--batches 1 16 64]

The weights are random. Ours is the SavedModel for token ids, loaded again, without and with XLA.
The peers, where installed (`pip install torch transformers ctranslate2`): MarianMT of Hugging Face
with its cache, the same weights in CTranslate2 (float32, int8), and the loop without a cache of
TensorFlow's tutorial. A ratio is the median over the rounds of (peer's time / our time): above 1
ours is faster; timing.py explains the measurement.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from timing import median_ratio, time_interleaved

from tfx_transformer.runtime import start_tensorflow

start_tensorflow()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfx_transformer.data import START  # noqa: E402
from tfx_transformer.export import export  # noqa: E402
from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.pipelines.translator import Translator  # noqa: E402

try:
    import ctranslate2
    import torch
    import transformers
except ImportError:
    torch = None

VOCAB_SIZE, LENGTH = 32_000, 32
OURS = ("ours", "ours + XLA")


def make_ours(folder):
    """The model, and the exported functions by name and beam width."""
    model = create_model("transformer", "base", vocab_size=VOCAB_SIZE)
    served = {}
    for width in (1, 4):
        decoder = {"kind": "beam", "width": width} if width > 1 else {"kind": "greedy"}
        decoder["min_length"] = LENGTH  # the same length for all
        for name in OURS:
            translator = Translator(model, None, None, decoder, LENGTH, name == "ours + XLA")
            path = export(translator, folder / f"{name}{width}", ids_only=True)
            loaded = tf.saved_model.load(str(path))
            served[name, width] = loaded, loaded.signatures["serving_default"]  # both are needed
    return model, served


def tutorial(model):
    """Decoding that runs the whole model for each token, as in TensorFlow's tutorial."""

    @tf.function(input_signature=[tf.TensorSpec([None, LENGTH], tf.int32)])
    def decode(source):
        target = tf.fill([tf.shape(source)[0], 1], START)
        for _ in tf.range(LENGTH):
            tf.autograph.experimental.set_loop_options(
                shape_invariants=[(target, tf.TensorShape([None, None]))]
            )
            logits = model({"source": source, "target": target})[:, -1]
            target = tf.concat([target, tf.argmax(logits, -1, tf.int32)[:, None]], axis=1)
        return target

    return decode


def make_marian():
    """A MarianMT model of the same size."""
    config = transformers.MarianConfig(
        vocab_size=VOCAB_SIZE + 1,  # the last is padding, as in all Marian models
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=VOCAB_SIZE,
        eos_token_id=2,
        decoder_start_token_id=VOCAB_SIZE,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config).eval()


def make_ctranslate2(marian, folder):
    """The same weights in CTranslate2, by compute type."""
    from ctranslate2.converters.transformers import _MODEL_LOADERS

    tokens = ["<unk>", "<s>", "</s>", *map(str, range(3, VOCAB_SIZE))]
    translators = {}
    for kind in ("float32", "int8"):
        spec = _MODEL_LOADERS["MarianConfig"].get_model_spec(marian)
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.decoder_start_token = spec.config.eos_token = "</s>"
        spec.config.add_source_eos = False
        spec.validate()
        spec.optimize(quantization=kind)
        path = folder / f"ctranslate2_{kind}"
        path.mkdir()
        spec.save(str(path))
        translators[kind] = ctranslate2.Translator(
            str(path), compute_type=kind, inter_threads=1, intra_threads=2
        )
    return translators


def peers(marian, translators, decode, source, width):
    """Peers by name, each a function without arguments."""
    cases = {}
    if width == 1 and len(source) <= 16:
        cases["tutorial, no cache"] = lambda: decode(source).numpy()
    if torch is None:
        return cases
    ids = torch.tensor(source, dtype=torch.long)
    options = dict(max_new_tokens=LENGTH, min_new_tokens=LENGTH, do_sample=False)

    def generate():
        with torch.inference_mode():
            output = marian.generate(
                ids, attention_mask=torch.ones_like(ids), num_beams=width, **options
            )
        if output.shape[1] != LENGTH + 1:
            raise ValueError(f"MarianMT gave {output.shape[1] - 1} tokens, not {LENGTH}")

    words = [[*map(str, row[:-1].tolist()), "</s>"] for row in source]

    def by_ctranslate2(translator):
        def translate():
            results = translator.translate_batch(
                words, beam_size=width, min_decoding_length=LENGTH, max_decoding_length=LENGTH
            )
            if (length := len(results[0].hypotheses[0])) != LENGTH:
                raise ValueError(f"CTranslate2 gave {length} tokens, not {LENGTH}")

        return translate

    cases["MarianMT"] = generate
    return cases | {f"CTranslate2 {k}": by_ctranslate2(t) for k, t in translators.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--widths", type=int, nargs="+", choices=(1, 4), default=[1, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, served = make_ours(Path(folder))
        marian = make_marian() if torch else None
        translators = make_ctranslate2(marian, Path(folder)) if torch else {}
        decode, rng = tutorial(model), np.random.default_rng(0)
        print("| decoder | batch | contender | tokens/s | ours is faster by | ours + XLA |")
        print("|---|---|---|---|---|---|")
        for width in options.widths:
            for batch in options.batches:
                source = rng.integers(4, VOCAB_SIZE, (batch, LENGTH)).astype("int32")
                source[:, -1] = 2  # END

                def call(signature, source=source):
                    return lambda: signature(tf.constant(source))["tokens"].numpy()

                cases = {name: call(served[name, width][1]) for name in OURS}
                cases |= peers(marian, translators, decode, source, width)
                seconds = time_interleaved(cases, options.rounds)
                for name, times in seconds.items():
                    ratios = [median_ratio(times, seconds[ours]) for ours in OURS]
                    speed = batch * LENGTH / statistics.median(times)
                    print(
                        f"| {'greedy' if width == 1 else f'beam {width}'} | {batch} | {name} "
                        f"| {speed:,.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
