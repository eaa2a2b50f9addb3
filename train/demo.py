"""The two main jobs in one command, each from its embedded data to a served SavedModel.

A translator of emoji names, English → Korean, and a classifier of handwritten digits.

Run:     make demo
Time:    5 minutes on 2 cores
Result:  28.0 BLEU, chrF 41.2 on phrases whose main word is new; nearest neighbour: 40.0, 47.0
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import tensorflow as tf

from tfx_transformer.data import Pairs, load_images
from tfx_transformer.export import export_classifier, export_translator
from tfx_transformer.image_plots import plot_predictions
from tfx_transformer.metrics import translation_scores
from tfx_transformer.train import classify_digits, translate_emoji
from tfx_transformer.train.folder import load_classify_run, load_translate_run
from tfx_transformer.train.image_pictures import draw_image
from tfx_transformer.train.pictures import draw
from tfx_transformer.train.recipe import ClassifyRecipe, TranslateRecipe
from tfx_transformer.train.run import train
from tfx_transformer.train.translation import load_split

# what servers do: TensorFlow, and no way to import this package
TRANSLATE = """
import sys
sys.modules["tfx_transformer"] = None
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
found = model.signatures["serving_default"](tf.constant(sys.argv[2:]))
print("\\n".join(text.decode() for text in found["text"].numpy()))
"""
CLASSIFY = """
import sys
sys.modules["tfx_transformer"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
files = [open(path, "rb").read() for path in sys.argv[2:]]
found = model.signatures["serving_default"](tf.constant(files))
for label, score in zip(found["label"].numpy(), found["score"].numpy()):
    print(f"{label.decode()} {score:.0%}")
"""


def run(folder: str = "runs/demo", translation=None, classification=None) -> dict[str, float]:
    """Trains, compares, exports, serves, draws, and tells where everything is.

    Args:
        folder: where everything goes; a second call goes on where the first one stopped.
        translation: another recipe than `translate_emoji`.
        classification: another recipe than `classify_digits`.
    """
    start, place = time.perf_counter(), Path(folder)
    scores = show_translation(translation or translate_emoji.RECIPE, place)
    scores |= show_classification(classification or classify_digits.RECIPE, place)
    print(f"""
{place}/translator, {place}/classifier
  run         recipe, checkpoints, metrics, model.keras
  served      the SavedModel: strings in, strings out; or bytes of pictures in, names out
  pictures    alignment, heads, rollout, learning curves …
took {time.perf_counter() - start:.0f} s

next:
  tfx-transformer translate {place}/translator/served "woman astronaut" --alignment
  tfx-transformer plot {place}/translator/run "red apple" --format svg
  tfx-transformer train translate_emoji --folder runs/de --data.train embedded:emoji/en-de
  tfx-transformer train translate_multi30k --help     # your own sentences
  tfx-transformer train classify_folder --help        # your own pictures
""")
    return scores


def show_translation(recipe: TranslateRecipe, folder: Path) -> dict[str, float]:
    """A translator, beside the nearest neighbour."""
    place = folder / "translator"
    scores = train(recipe, place / "run")
    train_pairs, test = load_split(recipe.data, "train"), load_split(recipe.data, "test")
    nearest = translation_scores(nearest_neighbour(train_pairs, test.source), test.target)

    loaded = load_translate_run(place / "run")
    shutil.rmtree(place / "served", ignore_errors=True)
    served = export_translator(loaded.translator(), place / "served", loaded.card())
    phrases = test.source[:: -(-len(test) // 8)]  # eight, evenly spaced
    answers = serve(TRANSLATE, served, phrases)
    draw(loaded, max(phrases, key=len), place / "pictures")

    print(f"\n{'never seen before':<42}{'by the SavedModel, in a process without this package'}")
    for phrase, answer in zip(phrases, answers, strict=True):
        print(f"{phrase:<41} {answer}")
    print(f"\non {len(test)} phrases never seen{'BLEU':>12}{'chrF':>8}")
    for name, found in (("the Transformer", scores), ("nearest neighbour", nearest)):
        print(f"  {name:<24}{found['bleu']:>12.1f}{found['chrf']:>8.1f}")
    print()
    return {"bleu": scores["bleu"], "nearest": nearest["bleu"]}


def show_classification(recipe: ClassifyRecipe, folder: Path) -> dict[str, float]:
    """A classifier of pictures."""
    place = folder / "classifier"
    scores = train(recipe, place / "run")
    loaded = load_classify_run(place / "run")
    shutil.rmtree(place / "served", ignore_errors=True)
    served = export_classifier(loaded.classifier(), place / "served", loaded.card())

    test = load_images(recipe.data.source, "test")
    rows = range(0, len(test), -(-len(test) // 8))  # eight, evenly spaced
    (place / "examples").mkdir(exist_ok=True)
    names = [test.class_names[test.labels[row]] for row in rows]
    files = [place / f"examples/{row}_{name}.png" for row, name in zip(rows, names, strict=True)]
    for file, row in zip(files, rows, strict=True):
        file.write_bytes(test.items[row])
    answers = serve(CLASSIFY, served, files)
    draw_image(loaded, test.items[rows[0]], place / "pictures")
    images, _ = loaded.classifier().read(tf.constant([test.items[row] for row in rows]))
    wrong = [not a.startswith(f"{n} ") for a, n in zip(answers, names, strict=True)]
    sheet = plot_predictions(
        images.numpy() / 255, answers, place / "pictures/predictions.png", wrong=wrong
    )
    print(
        f"\non {len(test)} pictures never seen: {scores['accuracy']:.1f} % right; some in {sheet}"
    )
    return {"accuracy": scores["accuracy"]}


def nearest_neighbour(pairs: Pairs, sources: list[str]) -> list[str]:
    """The translation of the training phrase that shares the largest part of its words."""
    known = [set(source.split()) for source in pairs.source]

    def nearest(words):
        return max(range(len(known)), key=lambda i: len(words & known[i]) / len(words | known[i]))

    return [pairs.target[nearest(set(source.split()))] for source in sources]


def serve(program: str, folder: Path, arguments) -> list[str]:
    """What a SavedModel says, in a fresh process."""
    command = [sys.executable, "-c", program, str(folder), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise ValueError(f"{folder} could not be served:\n{process.stderr}")
    return process.stdout.splitlines()
