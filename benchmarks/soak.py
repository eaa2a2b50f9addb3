"""Long tests of reliability: killed runs, and hostile inputs of exports.

    python benchmarks/soak.py kills --count 200
    python benchmarks/soak.py inputs --count 50000

`kills` trains three tasks, each once without interruption and once with SIGKILL at random moments,
and compares every array of the checkpoints and of the final model. `inputs` sends random strings
and damaged images to exports of a translator, a text classifier and an image classifier, compares
the answers of intact rows beside them, and prints the peak of memory.
"""

import dataclasses
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import tyro

TEXT = "the old man and the sea, a dog sees the red cat\n" * 400


def recipes() -> dict:
    """Small runs of three tasks with dropout, averages of weights and frequent checkpoints."""
    from tfx_transformer.train.recipes import RECIPES

    folder = Path(tempfile.mkdtemp())
    (folder / "text.txt").write_text(TEXT)
    words, rng = TEXT.split()[:12], random.Random(0)
    lines = [" ".join(rng.choices(words, k=rng.randrange(2, 7))) for _ in range(400)]
    (folder / "lines.txt").write_text("\n".join(lines))
    files = (str(folder / "lines.txt"),) * 2
    small = dict(steps=60, eval_steps=4, average=2)
    found = {}
    for name, data in {
        "translate_cldr": {"train": files, "vocab_size": 300, "token_budget": 256},
        "classify_digits": {"batch_size": 16},
        "gpt_text": {"train": str(folder / "text.txt"), "batch_size": 4, "max_length": 16},
    }.items():
        recipe = RECIPES[name]
        model = recipe.model.replace(dim=16, depth=1, num_heads=2, mlp_dim=16)
        count = {"eval_sentences": 8} if name == "translate_cldr" else {}
        found[name] = dataclasses.replace(
            recipe,
            model=model,
            data=dataclasses.replace(recipe.data, **data),
            optimizer=dataclasses.replace(recipe.optimizer, warmup_steps=5, ema=0.9),
            **small,
            **count,
        )
    return found


def start(recipe, folder: Path, log: Path) -> int:
    """Trains in a child process; TensorFlow is imported already, but was not used yet."""
    child = os.fork()
    if child:
        return child
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = 1
    try:
        from tfx_transformer.train.run import train

        train(recipe, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """Every array of the checkpoints and of the final weights."""
    import zipfile

    import h5py

    found = {}
    for path in sorted(folder.glob("checkpoints/*.npz")):
        with np.load(path) as stored:
            found |= {f"{path.name}/{name}": stored[name] for name in stored.files}
    with zipfile.ZipFile(folder / "model.keras") as archive:
        data = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(data) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]}) if hasattr(item, "shape") else None
        )
    return found


def kills(count: int = 200, seed: int = 0, folder: str = "runs/soak") -> None:
    """Kill runs at random moments; they must end with the same arrays as undisturbed ones.

    Args:
        count: kills over all tasks.
        seed: of the moments.
        folder: of the runs.
    """
    import tfx_transformer.train.run  # noqa: F401  # for the children

    top, rng, done, failed = Path(folder), random.Random(seed), 0, 0
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir(parents=True)
    own, seconds = recipes(), {}
    for name, recipe in own.items():
        begin = time.perf_counter()
        _, status = os.waitpid(start(recipe, top / name, top / f"{name}.log"), 0)
        if status:
            sys.exit(f"{name} failed: see {top / name}.log")
        seconds[name] = time.perf_counter() - begin
    print("undisturbed:", {name: f"{s:.0f} s" for name, s in seconds.items()}, flush=True)
    while done < count:
        for name, recipe in own.items():
            run, log = top / f"{name}_killed", top / f"{name}_killed.log"
            shutil.rmtree(run, ignore_errors=True)
            here = 0
            while True:
                child = start(recipe, run, log)
                is_last = here >= 12 or done >= count
                if not is_last:
                    time.sleep(rng.uniform(0.2, 0.5 * seconds[name]))
                    os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                if os.WIFSIGNALED(status):
                    done, here = done + 1, here + 1
                elif status:
                    sys.exit(f"{name} failed after a kill: see {log}")
                else:
                    break
            expected, found = arrays(top / name), arrays(run)
            wrong = [key for key in expected if not np.array_equal(expected[key], found.get(key))]
            failed += len(wrong)
            print(f"{name}: {here} kills, {len(expected)} arrays, {len(wrong)} differ", flush=True)
    print(f"{done} kills, {failed} arrays differ")


def hostile_text(rng: random.Random) -> bytes:
    """A random string: bytes, Unicode of all planes, control characters, repetitions."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        points = [rng.randrange(0x110000) for _ in range(rng.randrange(60))]
        return "".join(map(chr, points)).encode("utf-8", "surrogatepass")
    if kind == 2:
        return "".join(chr(rng.randrange(0, 40)) for _ in range(rng.randrange(80))).encode()
    if kind == 3:
        return (
            rng.choice(["a", "개", "\u0301", "🏳️‍🌈", " ", "\u200b"]) * rng.randrange(3000)
        ).encode()
    return " ".join(rng.choice(["cat", "red", "개", "Straße"]) for _ in range(30)).encode()


def hostile_image(rng: random.Random, files: list[bytes]) -> bytes:
    """A damaged image: bits flipped, cut, parts repeated, or random bytes."""
    data, kind = bytearray(rng.choice(files)), rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    if kind == 1:
        return bytes(data[: rng.randrange(len(data))])
    if kind == 2:
        at = rng.randrange(len(data))
        return bytes(data[:at] + data[at // 2 :])
    for _ in range(rng.randrange(1, 9)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def sample_images() -> list[bytes]:
    """Intact files: PNG, JPEG with an orientation, GIF and BMP, of several sizes."""
    from PIL import Image

    rng, files = np.random.default_rng(0), []
    for kind in ("png", "jpeg", "gif", "bmp"):
        for size in ((9, 7), (64, 48), (200, 301)):
            image = Image.fromarray(rng.integers(0, 256, (*size, 3), "uint8"))
            exif = Image.Exif()
            exif[0x0112] = 6
            file, options = io.BytesIO(), {"exif": exif} if kind == "jpeg" else {}
            image.save(file, kind, **options)
            files.append(file.getvalue())
    return files


def inputs(count: int = 50_000, seed: int = 0, batch_size: int = 64) -> None:
    """Send hostile strings and images through exports; intact rows beside them stay right.

    Args:
        count: inputs over all exports.
        seed: of the inputs.
        batch_size: rows of a request; the first one is intact.
    """
    from tfx_transformer.runtime import import_tensorflow

    import_tensorflow()
    import keras
    import tensorflow as tf

    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.export import export, load
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import Classifier, TextClassifier, Translator

    keras.utils.set_random_seed(0)
    rng, files, folder = random.Random(seed), sample_images(), Path(tempfile.mkdtemp())
    tokenizer = train_tokenizer(TEXT.split("\n"), 300)
    size = tokenizer.vocab_size
    names = ["a", "b", "c"]
    bert = create_model("bert", "test", vocab_size=size, head="classify", num_classes=3)
    transformer = create_model("transformer", "test", vocab_size=size)
    pipelines = {
        "translator": Translator(transformer, tokenizer, tokenizer, "beam", max_length=32),
        "text_classifier": TextClassifier(bert, tokenizer, names, max_length=32),
        "classifier": Classifier(create_model("vit", "test", num_classes=3), names),
    }
    for name, pipeline in pipelines.items():
        export(pipeline, folder / name)
        served, is_image = load(folder / name), name == "classifier"
        good = files[4] if is_image else b"the red cat"
        column = "labels" if is_image or name == "text_classifier" else "text"
        expected, before, broken = None, peak_memory(), 0
        for request in range(count // 3 // batch_size):
            rows = [
                hostile_image(rng, files) if is_image else hostile_text(rng)
                for _ in range(batch_size - 1)
            ]
            outputs = served.predict(tf.constant([good, *rows]))
            answers = outputs[column].numpy()
            for answer in answers.ravel():
                broken += "\ufffd" in answer.decode()  # raises if it is not UTF-8
            expected = answers[0] if expected is None else expected
            if not np.array_equal(answers[0], expected):
                sys.exit(f"{name}: request {request} changed the answer of an intact row")
            if request == 20:
                before = peak_memory()
        print(
            f"{name}: {(request + 1) * batch_size:,} inputs, {broken} with U+FFFD, "
            f"memory {before:.2f} GB after 20 requests, {peak_memory():.2f} GB at the end",
            flush=True,
        )


def peak_memory() -> float:
    """The peak of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"kills": kills, "inputs": inputs})
