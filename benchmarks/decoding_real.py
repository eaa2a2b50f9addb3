"""Translation speed of a trained model: strings in, strings out, compared with CTranslate2.

    python benchmarks/decoding_real.py RUN [--rounds 5] [--sentences 128] [--batches 1 16 64]
        [--widths 1 4] [--only default XLA] [--threads 2] [--cpu-time]

RUN is the folder of a finished translation run. All contenders have its weights and translate the
first sentences of its test set, in the same batches of similar length, to real ends of sentences:
the default SavedModel export, the one with XLA, and CTranslate2 in float32 and int8 with
SentencePiece before and after it. The beam is CTranslate2's (length_rule="power",
early_stop="full"), so that all search for the same. A ratio is the median over the rounds of
(CTranslate2's time in float32 / this time): above 1 is faster than CTranslate2. "limit" is the
share of the time that the matrix products would take at the peak of this machine. timing.py
explains the measurement. --cpu-time with --threads 1 counts the seconds of the processor instead of
those of the clock, for a machine that has other work too.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from timing import block_flops, matmul_case, median_ratio, peak_flops, time_interleaved

from tfx_transformer.runtime import start_tensorflow

start_tensorflow()

import ctranslate2  # noqa: E402
import numpy as np  # noqa: E402
import sentencepiece  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfx_transformer.export import export  # noqa: E402
from tfx_transformer.export.ctranslate2 import AGREEING, FILE  # noqa: E402
from tfx_transformer.train.run_folder import load_run  # noqa: E402
from tfx_transformer.train.tasks.translation.task import load_split  # noqa: E402

PEER, MATMUL = "CTranslate2 float32", "matmul"
OURS = {"default": {}, "XLA": {"jit_compile": True}}


def batches(texts, size):
    """The texts in batches of similar length."""
    texts = sorted(texts, key=len)
    return [texts[i : i + size] for i in range(0, len(texts), size)]


def saved_model(run, decoder, folder, options):
    """The exported function from strings to strings."""
    translator = run.pipeline(**decoder)
    translator = type(translator)(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        decoder,
        translator.max_length,
        **options,
    )
    loaded = tf.saved_model.load(str(export(translator, folder)))

    def translate(texts, signature=loaded.signatures["serving_default"], loaded=loaded):
        return [text.decode() for text in signature(tf.constant(texts))["text"].numpy()]

    return translate


def by_ctranslate2(run, decoder, folder, kind, threads):
    """CTranslate2 with SentencePiece before and after it."""
    if not folder.exists():
        export(run.pipeline(**decoder), folder, format="ctranslate2")
    options = json.loads((folder / FILE).read_text())
    translator = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=threads)
    source, target = (
        sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        for side in ("source", "target")
    )

    def translate(texts):
        results = translator.translate_batch(source.encode(texts, out_type=str), **options)
        return target.decode([result.hypotheses[0] for result in results])

    return translate


def processor_time(case):
    """The case with the seconds of all its threads as its result."""

    def timed_case():
        start = time.process_time()
        case()
        return time.process_time() - start

    return timed_case


def flops(run, source, target, width):
    """Operations in the matrix products for sentences of these numbers of tokens."""
    model = run.pipeline().model
    size = {"dim": model.dim, "mlp_dim": model.mlp_dim}
    total = 0
    for s, t in zip(source, target, strict=True):
        total += model.depth * block_flops(1, s, **size)
        per_token = block_flops(1, 1, **size) + 4 * model.dim**2 + 4 * model.dim * (s + t / 2)
        total += width * t * (model.decoder_depth * per_token + 2 * model.dim * model.vocab_size)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a finished translation run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--threads", type=int, default=2, help="of each library")
    parser.add_argument("--cpu-time", action="store_true", help="count seconds of the processor")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

    run = load_run(arguments.run, "translation")
    texts = load_split(run.recipe.data).source[: arguments.sentences]
    head = "| decoder | batch | contender | sentences/s | to CTranslate2 float32 | limit | same |"
    print(head + "\n|---|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for width in arguments.widths:
            beam = {"kind": "beam", "width": width} | AGREEING
            decoder = beam if width > 1 else {"kind": "greedy"}
            path = Path(folder) / str(width)
            path.mkdir()
            contenders = {
                name: saved_model(run, decoder, path / name, OURS[name]) for name in arguments.only
            } | {
                f"CTranslate2 {kind}": by_ctranslate2(
                    run, decoder, path / "ctranslate2", kind, arguments.threads
                )
                for kind in ("float32", "int8")
            }
            results = run.pipeline(**decoder).results(texts)
            lengths = [(len(r.source_pieces), len(r.pieces)) for r in results]
            work = flops(run, *zip(*lengths, strict=True), width)
            for batch in arguments.batches:
                parts = batches(texts, batch)

                def case(translate, parts=parts):
                    return lambda: [text for part in parts for text in translate(part)]

                cases = {name: case(translate) for name, translate in contenders.items()}
                outputs = {name: np.array(run_case()) for name, run_case in cases.items()}
                cases[MATMUL] = matmul_case()
                if arguments.cpu_time:
                    cases = {name: processor_time(case) for name, case in cases.items()}
                seconds = time_interleaved(cases, arguments.rounds, 1)
                peak = peak_flops(seconds.pop(MATMUL))
                for name, times in seconds.items():
                    median = statistics.median(times)
                    same = np.mean(outputs[name] == outputs[PEER])
                    print(
                        f"| {'greedy' if width == 1 else f'beam {width}'} | {batch} | {name} "
                        f"| {len(texts) / median:,.0f} | {median_ratio(seconds[PEER], times):.2f} "
                        f"| {work / median / peak:.1%} | {same:.1%} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
