"""Agreement and speed of a trained translator and its CTranslate2 export.

    python benchmarks/ctranslate2_agreement.py RUN [--sentences 1000]

Both translate the run's test set in float32, in batches of 64: with greedy decoding, with a beam
of 4 without length penalty, with our default length penalty, which CTranslate2 defines otherwise,
and with the same penalty as CTranslate2 defines it. Their options are those in translate_batch.json
of the export. Where two hypotheses are equally likely up to rounding, either may win, and all later
tokens differ. Ours stop at 2n + 10 tokens for n of the source; longer translations of CTranslate2
are compared up to that length.
"""

import argparse
import json
import tempfile
import time

from tfx_transformer.export import export
from tfx_transformer.export.ctranslate2 import AGREEING, FILE
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.translation.task import load_split

BEAM = {"kind": "beam", "width": 4}
DECODERS = {
    "greedy": {"kind": "greedy"},
    "beam 4, no length penalty": BEAM | {"length_penalty": 0.0},
    "beam 4, default length penalty": BEAM,
    'beam 4, length_rule="power", early_stop="full"': BEAM | AGREEING,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run", help="folder of a finished translation run")
    parser.add_argument("--sentences", type=int, default=1000)
    arguments = parser.parse_args()

    import ctranslate2
    import sentencepiece

    run = load_run(arguments.run, "translation")
    texts = load_split(run.recipe.data).source[: arguments.sentences]
    print("| decoder | same translations | seconds, ours | CTranslate2 |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, decoder in DECODERS.items():
            translator = run.pipeline(**decoder)
            exported = export(translator, f"{folder}/{name}", format="ctranslate2")
            options = json.loads((exported / FILE).read_text())
            peer = ctranslate2.Translator(str(exported), compute_type="float32")
            source = sentencepiece.SentencePieceProcessor(str(exported / "source.spm"))
            translator.results(texts[:2])  # traces the graph
            start = time.perf_counter()
            ours = [result.pieces for result in translator.results(texts)]
            middle = time.perf_counter()
            pieces = source.encode(texts, out_type=str)
            results = peer.translate_batch(pieces, max_batch_size=64, **options)
            theirs = [[*result.hypotheses[0], "</s>"] for result in results]
            end = time.perf_counter()
            same = sum(a == b[: len(a)] for a, b in zip(ours, theirs, strict=True))
            seconds = f"{middle - start:.1f} | {end - middle:.1f}"
            print(f"| {name} | {same:,} of {len(texts):,} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
