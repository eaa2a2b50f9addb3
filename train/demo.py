"""The demo: trains, exports and plots a translator and an image classifier.

The exports are loaded in a process without this package, as a server would.

The data are embedded: dates, times, amounts and lists by CLDR, English → Korean, and scans of
handwritten digits (MNIST).

Run:     make demo
Time:    2 minutes on 2 cores
Result:  98.4 BLEU, 96.4 % exact; 98.0 % of the scans
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import tensorflow as tf

from tfx_transformer.data import Pairs, load_images
from tfx_transformer.export import export
from tfx_transformer.train.recipe import Recipe
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.run import train
from tfx_transformer.train.run_folder import Run, load_run
from tfx_transformer.train.tasks.translation.task import load_split
from tfx_transformer.training.metrics import translation_scores
from tfx_transformer.visualization.images import plot_predictions

EXAMPLE = "Wednesday, November 18, 2026"  # year, month, day and weekday change places in Korean
# programs that use an export: TensorFlow, and no import of this package
TRANSLATE = """
import sys
sys.modules["tfx_transformer"] = sys.modules["tensorflow_text"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
outputs = model.signatures["serving_default"](tf.constant(sys.argv[2:]))
print("\\n".join(text.decode() for text in outputs["text"].numpy()))
"""
CLASSIFY = """
import sys
sys.modules["tfx_transformer"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
files = [open(path, "rb").read() for path in sys.argv[2:]]
outputs = model.signatures["serving_default"](tf.constant(files))
for label, score in zip(outputs["label"].numpy(), outputs["score"].numpy()):
    print(f"{label.decode()} {score:.0%}")
"""


def run(folder: str = "runs/demo", translation=None, classification=None) -> dict[str, float]:
    """Trains, compares, exports and plots; prints where everything is.

    Args:
        folder: where everything is written; a second call continues where the first one stopped.
        translation: another recipe than `translate_cldr`.
        classification: another recipe than `classify_mnist`.
    """
    start, to = time.perf_counter(), Path(folder)
    scores = show_translation(translation or RECIPES["translate_cldr"], to / "translator")
    scores |= show_classification(classification or RECIPES["classify_mnist"], to / "classifier")
    print(f"""
{folder}/translator, {folder}/classifier
  run         recipe, checkpoints, metrics, model.keras
  served      the SavedModel: strings in, strings out; or image files in, class names out
  pictures    alignment, heads, rollout, learning curves …
took {time.perf_counter() - start:.0f} s

type your own phrases:
  source .venv/bin/activate
  tfx-transformer translate {folder}/translator/served

next:
  tfx-transformer plot {folder}/translator/run "{EXAMPLE}" --format svg
  tfx-transformer train translate_cldr --folder runs/fr --data.train embedded:cldr/en-fr
  tfx-transformer train translate --data.train a.en a.fr --minutes 30    # your own sentences
  tfx-transformer train classify --data.source photos/ --minutes 20      # your own images

serve, and open http://localhost:8501 to try both:
  tfx-transformer serve {folder}/translator/served {folder}/classifier/served
""")
    return scores


def train_and_export(recipe: Recipe, folder: Path, **options) -> tuple[Run, dict, Path]:
    """The finished run, its scores, and the folder of its SavedModel with these options."""
    scores = train(recipe, folder / "run")
    loaded = load_run(folder / "run")
    shutil.rmtree(folder / "served", ignore_errors=True)
    return loaded, scores, export(loaded.pipeline(**options), folder / "served", loaded.card())


def show_translation(recipe: Recipe, folder: Path) -> dict[str, float]:
    """A translator, compared with the nearest neighbor."""
    loaded, scores, served = train_and_export(recipe, folder, n_best=4)  # for the page
    data = loaded.recipe.data
    known, test = load_split(data, "train"), load_split(data, "test")
    nearest = translation_scores(nearest_neighbor(known, test.source), test.target)
    phrases = test.source[:: -(-len(test) // 8)]  # eight, evenly spaced
    answers = run_export(TRANSLATE, served, phrases)
    references = test.target[:: -(-len(test) // 8)]
    is_default = recipe is RECIPES["translate_cldr"]
    shown = EXAMPLE if is_default else max(phrases, key=len)
    loaded.task.plot(loaded, shown, to=folder / "pictures")

    print("\nnot in the training set → by the SavedModel, in a process without this package:")
    for phrase, answer, reference in zip(phrases, answers, references, strict=True):
        wrong = "" if answer == reference else f"    (reference: {reference})"
        print(f"  {phrase} → {answer}{wrong}")
    print(f"\non {len(test)} test phrases{'BLEU':>16}{'exact':>10}")
    for name, found in (("the Transformer", scores), ("nearest neighbor", nearest)):
        print(f"  {name:<24}{found['bleu']:>12.1f}{found['exact_match']:>8.1f} %")
    print(f"alignment of “{shown}”: {folder}/pictures/alignment.png\n")
    return {"bleu": scores["bleu"], "nearest": nearest["bleu"]}


def show_classification(recipe: Recipe, folder: Path) -> dict[str, float]:
    """A classifier of images."""
    loaded, scores, served = train_and_export(recipe, folder)
    test = load_images(loaded.recipe.data.source, "test")
    rows = range(0, len(test), -(-len(test) // 8))  # eight, evenly spaced
    (folder / "examples").mkdir(exist_ok=True)
    names = [test.class_names[test.labels[row]] for row in rows]
    files = [folder / f"examples/{row}_{name}.png" for row, name in zip(rows, names, strict=True)]
    for file, row in zip(files, rows, strict=True):
        file.write_bytes(test.items[row])
    shutil.copy(files[0], folder / "examples/digit.png")  # a name for the commands in the README
    answers = run_export(CLASSIFY, served, files)
    loaded.task.plot(loaded, str(files[0]), to=folder / "pictures")
    images, _ = loaded.pipeline().read(tf.constant([test.items[row] for row in rows]))
    wrong = [not a.startswith(f"{n} ") for a, n in zip(answers, names, strict=True)]
    path = folder / "pictures/predictions.png"
    plot_predictions(images.numpy() / 255, answers, path, wrong=wrong)
    print(f"\non {len(test)} test images: {scores['accuracy']:.1f} % right; examples in {path}")
    return {"accuracy": scores["accuracy"]}


def nearest_neighbor(pairs: Pairs, sources: list[str]) -> list[str]:
    """The translations of the training phrases with the most words in common (Jaccard index)."""
    known = [set(source.split()) for source in pairs.source]

    def nearest(words):
        return max(range(len(known)), key=lambda i: len(words & known[i]) / len(words | known[i]))

    return [pairs.target[nearest(set(source.split()))] for source in sources]


def run_export(program: str, folder: Path, arguments) -> list[str]:
    """The output of a SavedModel in a fresh process."""
    command = [sys.executable, "-c", program, str(folder), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise ValueError(f"{folder} could not be used:\n{process.stderr}")
    return process.stdout.splitlines()
