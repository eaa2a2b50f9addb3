"""How often a trained translator and its CTranslate2 export say the same, and how fast they are.

    python benchmarks/agreement.py RUN [--sentences 1000]

The run's model goes out in CTranslate2's format; both translate the run's test set in float32, in
batches of 64, greedily and by a beam of 4 without a length penalty, which both define alike. Where
two hypotheses are equally likely up to rounding, either may win, and all after it differ. Ours end
at 2n + 10 tokens for n of the source; what CTranslate2 says behind that place does not count.
"""

import argparse
import tempfile
import time

from tfx_transformer.convert.to_ctranslate2 import export_ctranslate2
from tfx_transformer.lines import translate_lines
from tfx_transformer.train.folder import load_translate_run
from tfx_transformer.train.searching import Search
from tfx_transformer.train.translation import load_split

SEARCHES = {  # ours, CTranslate2's
    "greedy": (Search("greedy"), {"beam_size": 1}),
    "beam 4": (Search("beam", 4, 0.0), {"beam_size": 4, "length_penalty": 0.0}),
}


def main():
    import ctranslate2
    import sentencepiece

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()

    run = load_translate_run(options.run)
    texts = load_split(run.recipe.data).source[: options.sentences]
    print("| search | same translations | seconds, ours | CTranslate2 |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        to = export_ctranslate2(run.translator(), f"{folder}/out")
        library = ctranslate2.Translator(str(to), compute_type="float32")
        source = sentencepiece.SentencePieceProcessor(str(to / "source.spm"))
        for name, (search, theirs) in SEARCHES.items():
            translate = run.translator(search).translate
            list(translate_lines(translate, texts[:2]))  # traced
            start = time.perf_counter()
            ours = [found.pieces for found in translate_lines(translate, texts)]
            middle = time.perf_counter()
            pieces = source.encode(texts, out_type=str)
            found = library.translate_batch(pieces, max_batch_size=64, **theirs)
            answers = [[*result.hypotheses[0], "</s>"] for result in found]
            end = time.perf_counter()
            pairs = zip(ours, answers, strict=True)
            same = sum(own == other[: len(own)] for own, other in pairs)
            seconds = f"{middle - start:.1f} | {end - middle:.1f}"
            print(f"| {name} | {same:,} of {len(texts):,} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
