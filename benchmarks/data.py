"""Time and memory of data at scale: pairs of sentences, and folders of images.

    python benchmarks/data.py text --pairs 10000 100000 1000000
    python benchmarks/data.py images --files 1000000
    python benchmarks/data.py padding --files train.en train.de

`text` generates pairs, and starts a run twice, each time in a new process: the first one stores and
tokenizes them, the second one finds them. `images` measures the input pipeline alone on JPEG files
of 500 × 375 pixels, beside `keras.utils.image_dataset_from_directory`; then it makes a folder of
links to a few small files and lists it twice, as above. `padding` trains a translator on batches
whose shapes the data choose, and on batches of one length for both sides.

Memory is that of the process alone at its peak, without the disk cache, which holds what is stored.
"per core" is per second of CPU time.
"""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import tyro


class Memory(threading.Thread):
    """The peak of the private memory of this process since `start`, in MB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak = self.read()
        self.start()

    def run(self):
        while True:
            time.sleep(0.02)
            self.peak = max(self.peak, self.read())

    @staticmethod
    def read() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(x.split()[1]) / 1024 for x in lines if x.startswith("RssAnon"))


def make_pairs(folder: Path, count: int) -> tuple[Path, Path]:
    """Two files of sentences of 5 to 45 words, drawn from 50,000 by Zipf's law."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwyp"))
    words = ["".join(rng.choice(letters, n)) for n in rng.integers(1, 11, 50_000)]
    paths = folder / f"{count}.en", folder / f"{count}.de"
    if all(path.exists() for path in paths):
        return paths
    with paths[0].open("w") as source, paths[1].open("w") as target:
        for first in range(0, count, 10_000):
            lengths = rng.integers(5, 46, min(10_000, count - first))
            ranks = rng.zipf(1.3, lengths.sum()) % len(words)
            drawn, ends = [words[i] for i in ranks.tolist()], np.cumsum(lengths).tolist()
            for begin, end in zip([0, *ends], ends, strict=False):
                line = " ".join(drawn[begin:end])
                source.write(line + "\n")
                target.write(line[::-1] + "\n")
    return paths


class Parts:
    """Seconds and memory of the parts of a start."""

    def __init__(self):
        self.before, self.found, self.cpu = Memory.read(), {}, time.process_time()

    def timed(self, name, function):
        begin, memory = time.perf_counter(), Memory()
        result = function()
        self.found[name] = time.perf_counter() - begin, memory.peak - self.before
        return result

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {s:.1f} s ({m:.0f} MB)" for name, (s, m) in self.found.items())
        total = sum(seconds for seconds, _ in self.found.values())
        return f"{total:.1f} s, of the processor {time.process_time() - self.cpu:.1f} s: {parts}"


def per_core(function) -> float:
    """How many of what a function returns it makes in a second of CPU time."""
    begin = time.process_time()
    return function() / (time.process_time() - begin)


def repeat(count: int, *arguments: str) -> None:
    """Runs this file several times in new processes; each prints a line."""
    for name in ("first start", "again")[:count]:
        print(end=f"{name}: ", flush=True)
        subprocess.run([sys.executable, __file__, *arguments], check=True)


def start(files: str, folder: str, vocab_size: int, sentences: int) -> None:
    """A start of a run as far as its first batch."""
    from tfx_transformer.data import PairBatches, Tokenizer, load_pairs, train_tokenizer
    from tfx_transformer.data.text.tokenizer import evenly_spaced

    parts = Parts()
    pairs = parts.timed("read", lambda: load_pairs(files, cache=Path(folder) / "cache"))
    path = Path(folder) / "tokenizer.model"
    if not path.exists():

        def train():
            sides = (evenly_spaced(side, sentences) for side in (pairs.source, pairs.target))
            return train_tokenizer([text for side in sides for text in side], vocab_size)

        parts.timed("vocabulary", train).save(path)
    tokenizer = Tokenizer.load(path)
    data = parts.timed("batches", lambda: PairBatches(pairs, tokenizer, tokenizer))
    parts.timed("first batch", lambda: next(iter(data.stream(1))))

    def take():
        batches = data.stream().take(200).as_numpy_iterator()
        return sum(len(inputs["source"]) for inputs, _, _ in batches)

    print(f"{parts}; batches of {per_core(take):,.0f} pairs/s per core", flush=True)


def text(
    pairs: tuple[int, ...] = (10_000, 100_000, 1_000_000),
    vocab_size: int = 8000,
    sentences: int = 20_000,
    folder: str = "",
) -> None:
    """Store, tokenize and batch generated pairs.

    Args:
        pairs: how many.
        vocab_size: of the joint vocabulary.
        sentences: of each side that the vocabulary is trained on.
        folder: for the files, which are used again; a temporary one by default.
    """
    for count in pairs:
        with tempfile.TemporaryDirectory(dir=folder or None) as here:
            files = ",".join(map(str, make_pairs(Path(folder or here), count)))
            size = sum(Path(x).stat().st_size for x in files.split(",")) / 1e6
            print(f"{count:,} pairs, {size:.0f} MB")
            sizes = ["--vocab-size", str(vocab_size), "--sentences", str(sentences)]
            repeat(2, "start", "--files", files, "--folder", here, *sizes)


def make_images(folder: Path, count: int, size: tuple[int, int], files: int) -> Path:
    """So many JPEG files in ten folders: links to a few different ones."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(files):
        path = folder / f"class{i % 10}" / f"{i // 10}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if i >= count:
            path.hardlink_to(folder / f"class{i % 10}" / f"{i % count // 10}.jpg")
            continue
        coarse = Image.fromarray(rng.integers(0, 256, (size[1] // 8, size[0] // 8, 3), "uint8"))
        coarse.resize(size, Image.Resampling.BICUBIC).save(path, quality=90)
    return folder


def scan(folder: str, cache: str) -> None:
    """Lists and checks the training images of a folder, and reads some."""
    from tfx_transformer.data.images import sources

    sources.IN_MEMORY = 0  # read on access
    parts = Parts()
    images = parts.timed("scan", lambda: sources.load_images(folder, cache=Path(cache)))
    parts.timed("first batch", lambda: images.items.take(range(128)))
    print(f"{len(images):,} images: {parts}", flush=True)


def images(files: int = 1_000_000, count: int = 2000, folder: str = "") -> None:
    """List a large folder, and measure the input pipeline.

    Args:
        files: links in the folder.
        count: images of the pipeline.
        folder: for the files; a temporary one by default.
    """
    with tempfile.TemporaryDirectory(dir=folder or None) as here:
        pipelines(make_images(Path(here) / "pictures", count, (500, 375), count))
        links = make_images(Path(here) / "links", 1000, (64, 48), files)
        repeat(2, "scan", "--folder", str(links), "--cache", f"{here}/cache")


def pipelines(folder: Path, batch_size: int = 128) -> None:
    """Images per second and core of our pipeline and of Keras's, 224 × 224."""
    from tfx_transformer.runtime import import_tensorflow

    import_tensorflow()
    import keras

    from tfx_transformer.data import ImageBatches, load_images
    from tfx_transformer.data.images import sources
    from tfx_transformer.data.images.options import Augmentation

    sources.IN_MEMORY = 0
    found = load_images(folder, cache=folder.parent / "cache")
    none, random = Augmentation(crop="none", flip=False), Augmentation(crop="resized")
    ours = {
        "resized": ImageBatches(found, 224, batch_size, augmentation=none, resize="squash"),
        "random crops, flips": ImageBatches(found, 224, batch_size, augmentation=random),
    }
    options = {"image_size": (224, 224), "batch_size": batch_size, "verbose": False}
    keras_data = keras.utils.image_dataset_from_directory(folder, **options).repeat()
    data = {"Keras, resized": keras_data} | {k: x.stream() for k, x in ours.items()}
    for name, dataset in data.items():
        batches = iter(dataset)
        next(batches)

        def take(batches=batches):
            return sum(len(next(batches)[0]) for _ in range(8))

        print(f"{name}: {per_core(take):,.0f} images/s per core", flush=True)


def padding(files: tuple[str, str], vocab_size: int = 4000, steps: int = 30) -> None:
    """Padding and training speed of the batches of two files of sentences.

    Args:
        files: the sentences and their translations.
        vocab_size: of the joint vocabulary.
        steps: timed, twice for each kind of batches.
    """
    from tfx_transformer.data import PairBatches, load_pairs, train_tokenizer
    from tfx_transformer.data.buckets import bucket_sizes
    from tfx_transformer.data.epochs import BucketedBatches
    from tfx_transformer.models import create_model
    from tfx_transformer.train.optimizer import make_optimizer
    from tfx_transformer.train.tasks.translation import TranslationRecipe
    from tfx_transformer.training.losses import TokenCrossentropy
    from tfx_transformer.training.updates import distribute, use_updates

    pairs = load_pairs(list(files))
    tokenizer = train_tokenizer([*pairs.source, *pairs.target], vocab_size)
    chosen, fixed = (
        PairBatches(pairs, tokenizer, tokenizer, token_budget=4096, max_length=64) for _ in range(2)
    )
    sizes = {(x, x): rows for x, rows in bucket_sizes(64, 4096).items()}
    BucketedBatches.__init__(fixed, fixed.lengths, sizes, 0)
    model = create_model("transformer", "small", vocab_size=tokenizer.vocab_size, dim=128, depth=4)
    loss = TokenCrossentropy(0.1, reduction="sum")
    model.compile(make_optimizer(TranslationRecipe(), model), loss, jit_compile=False)
    use_updates(model)

    def speed(data, steps: int) -> float:
        """Tokens of both sides, without padding, in a second."""
        batches = distribute(model.distribute_strategy, data.stream)
        begin = time.perf_counter()
        model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
        own = data.epoch_batches()[:steps]
        tokens = sum(int(data.lengths[:, x.rows[x.is_real]].sum()) for x in own)
        return tokens / (time.perf_counter() - begin)

    kinds = {"chosen by the data": chosen, "one length for both sides": fixed}
    for data in kinds.values():
        speed(data, 5)
    for _ in range(2):
        for name, data in kinds.items():
            shown = str(data).rpartition("tokens in ")[2]
            print(f"{name}: {shown}; {speed(data, steps):,.0f} tokens/s", flush=True)


if __name__ == "__main__":
    commands = {"text": text, "images": images, "padding": padding, "start": start, "scan": scan}
    tyro.extras.subcommand_cli_from_dict(commands)
