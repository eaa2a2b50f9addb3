"""Speed of a training step of the translator compared with its peers.

    python benchmarks/training.py [--rounds 5] [--sizes small base] [--tokens 2048 4096]
        [--without-xla] [--precision float32 mixed_bfloat16]

Forward, backward and Adam with `fit` on batches of 32-token sentences, dropout 0.1, label smoothing
0.1. The peers: layers of keras-hub with the same `fit`, and, where installed (`pip install torch
transformers`), MarianMT of Hugging Face in a plain loop, also by `torch.compile`. All have the same
precision. A ratio is the median over the rounds of (peer's time / our time): above 1 ours is
faster; timing.py explains the measurement.
"""

import argparse
import statistics

from timing import fit_case, loop_case, median_ratio, time_interleaved

from tfx_transformer.runtime import start_tensorflow

start_tensorflow()

import keras  # noqa: E402
import keras_hub  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402

try:
    import torch
    import transformers
except ImportError:
    torch = None

LENGTH = 32
SIZES = {  # depth, dim, heads, mlp_dim, vocabulary
    "small": (3, 256, 4, 1024, 8000),
    "base": (6, 512, 8, 2048, 32_000),
}
OURS = ("ours", "ours + XLA")


def hub_model(depth, dim, heads, mlp_dim, vocab_size):
    """Encoder and decoder of keras-hub's layers with tied embeddings."""
    source = keras.Input((LENGTH,), dtype="int32", name="source")
    target = keras.Input((LENGTH,), dtype="int32", name="target")
    table = keras_hub.layers.ReversibleEmbedding(vocab_size, dim, tie_weights=True)
    position = keras_hub.layers.SinePositionEncoding()
    x, y = table(source), table(target)
    x, y = x + position(x), y + position(y)
    for _ in range(depth):
        x = keras_hub.layers.TransformerEncoder(mlp_dim, heads, dropout=0.1)(x)
    for _ in range(depth):
        y = keras_hub.layers.TransformerDecoder(mlp_dim, heads, dropout=0.1)(y, x)
    return keras.Model({"source": source, "target": target}, table(y, reverse=True))


def marian_case(
    depth, dim, heads, mlp_dim, vocab_size, source, target, labels, half=False, compiled=False
):
    config = transformers.MarianConfig(
        vocab_size=vocab_size,
        d_model=dim,
        encoder_layers=depth,
        decoder_layers=depth,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=mlp_dim,
        decoder_ffn_dim=mlp_dim,
        activation_function="relu",
        dropout=0.1,
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.MarianMTModel(config).train()
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98))
    source, target, labels = (torch.tensor(x, dtype=torch.long) for x in (source, target, labels))
    mask = torch.ones_like(source)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = forward(
                input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
            ).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().reshape(-1, vocab_size), labels.reshape(-1), label_smoothing=0.1
        )
        loss.backward()
        optimizer.step()
        return loss.item()

    return loop_case(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--without-xla", action="store_true", help="leave out ours with XLA")
    parser.add_argument("--precision", choices=("float32", "mixed_bfloat16"), default="float32")
    options = parser.parse_args()
    keras.config.set_dtype_policy(options.precision)
    half, contenders = options.precision != "float32", OURS[: 2 - options.without_xla]
    rng = np.random.default_rng(0)
    ratios = " | ".join(["ours is faster by", "ours + XLA"][: len(contenders)])
    print(f"| model | target tokens | contender | tokens/s | {ratios} |")
    print(f"|---|---|---|---|{'---|' * len(contenders)}")
    for size in options.sizes:
        depth, dim, heads, mlp_dim, vocab_size = SIZES[size]
        for tokens in options.tokens:
            source, target, labels = rng.integers(
                4, vocab_size, (3, tokens // LENGTH, LENGTH), dtype="int32"
            )
            weights = np.ones(labels.shape, "float32")
            inputs = {"source": source, "target": target}
            data = tf.data.Dataset.from_tensors((inputs, labels, weights))
            loss = TokenCrossentropy(0.1)
            cases = {}
            for name in contenders:
                model = create_model("transformer", size, vocab_size=vocab_size)
                optimizer = FusedAdam(1e-4, beta_2=0.98)
                cases[name] = fit_case(model, data, optimizer, loss, name == "ours + XLA")
            adam = keras.optimizers.Adam(1e-4, beta_2=0.98)
            cases["keras-hub"] = fit_case(hub_model(*SIZES[size]), data, adam, loss)
            if torch is not None:
                for name, compiled in (("MarianMT", False), ("MarianMT, compiled", True)):
                    arrays = source, target, labels
                    cases[name] = marian_case(*SIZES[size], *arrays, half=half, compiled=compiled)
            seconds = time_interleaved(cases, options.rounds, warmup=1)
            for name, times in seconds.items():
                ratios = [median_ratio(times, seconds[ours]) for ours in contenders]
                print(
                    f"| {size} | {tokens:,} | {name} | {tokens / statistics.median(times):,.0f} "
                    f"| {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |",
                    flush=True,
                )
            keras.backend.clear_session()


if __name__ == "__main__":
    main()
