"""Reads thousands of mutated files and prints what went wrong; `test_untrusted_files.py` runs it.

    python tests/contracts/fuzz_untrusted_files.py SEED COUNT

Every reader must return, or raise a ValueError or OSError of one line that names the file or its
folder; the process must neither crash nor need much more memory than before.
"""

import copy
import io
import json
import random
import resource
import shutil
import struct
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np

from tfx_transformer.convert import read_normalization, read_options, read_weights
from tfx_transformer.convert.ctranslate2 import load_ctranslate2
from tfx_transformer.convert.ctranslate2_file import read_model_file
from tfx_transformer.convert.marian import load_marian
from tfx_transformer.data.images.arrays import read_npz
from tfx_transformer.data.images.files import encode_png, open_files, read_images
from tfx_transformer.data.text.tokenizer import Tokenizer, train_tokenizer
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.train.recipe import load_recipe, save_recipe
from tfx_transformer.train.recipes import RECIPES

FIXTURES = Path(__file__).parents[1] / "fixtures"
MAX_GROWTH = 2**28  # bytes; no file here has more than 200 kB
VALUES = [None, True, -1, 0, 1, 10**7, 10**30, 1e308, 0.5, "", "x" * 999, [], {}, [[]], {"a": []}]
PRESET = {
    "class_name": "SwinTransformerBackbone",
    "config": {
        "image_shape": [16, 16, 3],
        "patch_size": 2,
        "embed_dim": 8,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "window_size": 4,
        "mlp_ratio": 2.0,
    },
}
HEADER = 8  # of a .safetensors file, the length of its JSON


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        size = max(len(data), 1)
        start, count = rng.randrange(size), rng.choice([1, 2, 4, 8, 64])
        kind = rng.randrange(5)
        if kind == 0 and data:  # a bit
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[start : start + rng.choice([1, 4, size])]
        elif kind == 2:
            data[start:start] = rng.randbytes(count)
        elif kind == 3:  # a number
            data[start : start + count] = rng.choice([b"\xff", b"\0", b"\x7f"]) * count
        else:
            data[start:start] = data[start : start + rng.randrange(256)]
    return bytes(data)


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Replaces or removes values; sometimes a byte."""
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    value = json.loads(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        node, places = value, []
        while isinstance(node, dict | list) and node:
            key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
            places.append((node, key))
            node = node[key]
        if not places:
            break
        node, key = rng.choice(places)
        if rng.random() < 0.2:
            del node[key]
        elif rng.random() < 0.05:
            depth = rng.choice([10, 900, 10**5])
            node[key] = "DEEP"
            text = json.dumps(value).replace('"DEEP"', "[" * depth + "]" * depth)
            return text.encode()
        else:
            node[key] = copy.deepcopy(rng.choice([*VALUES, rng.randrange(2**40), value]))
    return json.dumps(value).encode()


def mutate_zip(content: bytes, rng: random.Random) -> bytes:
    """Changes the entries of an archive, or its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    file, changed = io.BytesIO(), rng.randrange(len(entries))
    with zipfile.ZipFile(file, "w", rng.choice([0, 8, 12, 14])) as archive:
        for index, (name, data) in enumerate(entries):
            if index == changed:
                data = mutate_bytes(data, rng) + bytes(rng.choice([0, 0, 0, 2**22]))
            archive.writestr(name if rng.random() < 0.95 else f"../{name}", data)
    return file.getvalue()


def mutate_safetensors(content: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", content[:HEADER])
    header, data = content[HEADER : HEADER + length], content[HEADER + length :]
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    header = mutate_json(header, rng)
    return struct.pack("<Q", len(header)) + header + data


def read_zip_of_images(path):
    with open_files(path, "") as (names, read):
        read_images(names, read)


def readers(folder: Path):
    """Name → (the file to mutate, how, the function that reads it, its share of the mutations)."""
    for name in ("torch.pth", "torch_legacy.pth", "timm_mlp_mixer.safetensors"):
        shutil.copy(FIXTURES / name, folder)
    images = {"cat/a.png": encode_png(np.zeros((5, 4, 3), "uint8"))}
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for name, data in images.items():
            archive.writestr(name, data)
    pixels, labels = np.zeros((4, 3, 3), "uint8"), np.array([0, 1, 0, 1])
    np.savez(folder / "images.npz", x_train=pixels, y_train=labels, class_names=["a", "b"])
    for name in ("bert", "gpt", "swin", "vit"):
        (folder / name).mkdir()
        shutil.copy(FIXTURES / f"hugging_face_{name}.json", folder / name / "config.json")
        (folder / name / "model.safetensors").write_bytes(bytes(10**5))
        yield name, folder / name / "config.json", mutate_json, read_config(name), 1
    (folder / "preset").mkdir()
    (folder / "preset/config.json").write_text(json.dumps(PRESET))
    (folder / "preset/model.safetensors").write_bytes(bytes(10**5))
    yield "preset", folder / "preset/config.json", mutate_json, read_config("swin"), 1
    with h5py.File(folder / "model.weights.h5", "w") as file:
        file["layers/dense/vars/0"] = np.zeros((30, 40), "float32")
        file.create_dataset("layers/dense/vars/1", data=np.zeros(300), compression="gzip")
    yield "h5", folder / "model.weights.h5", mutate_bytes, read_weights, 1
    save_recipe(RECIPES["translate_emoji"], folder / "recipe.json")
    WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b"]).save(folder)
    shutil.copytree(FIXTURES / "marian", folder / "marian")
    shutil.copytree(FIXTURES / "ctranslate2", folder / "ctranslate2")
    yield "torch", folder / "torch.pth", mutate_zip, read_weights, 2
    yield "torch legacy", folder / "torch_legacy.pth", mutate_bytes, read_weights, 2
    safetensors = folder / "timm_mlp_mixer.safetensors"
    yield "safetensors", safetensors, mutate_safetensors, read_weights, 1
    yield "npz", folder / "images.npz", mutate_zip, read_npz, 1
    yield "zip", folder / "images.zip", mutate_zip, read_zip_of_images, 1
    yield "recipe", folder / "recipe.json", mutate_json, load_recipe, 1
    yield "vocab.txt", folder / "vocab.txt", mutate_bytes, lambda _: WordPiece.load(folder), 1
    config = folder / "tokenizer_config.json"
    yield "tokenizer config", config, mutate_json, lambda _: WordPiece.load(folder), 0.1
    train_tokenizer(["a b ab", "ba c"], 270).save(folder / "tokenizer.model")
    yield "tokenizer", folder / "tokenizer.model", mutate_bytes, Tokenizer.load, 1
    model = folder / "ctranslate2/model.bin"
    yield "model.bin", model, mutate_bytes, read_model_file, 1
    for name in ("config.json", "shared_vocabulary.json"):
        path = folder / "ctranslate2" / name
        yield path.name, path, mutate_json, lambda path: load_ctranslate2(path.parent), 0.05
    yield "whole model.bin", model, mutate_bytes, lambda path: load_ctranslate2(path.parent), 0.05
    for name in ("config.json", "generation_config.json", "vocab.json", "source.spm"):
        path, mutate = folder / "marian" / name, mutate_json if "json" in name else mutate_bytes
        yield f"marian {name}", path, mutate, lambda path: load_marian(path.parent), 0.05


def read_config(name):
    def read(path):
        read_options(name, path.with_name("model.safetensors"))
        read_normalization(path)

    return read


def problem(error: Exception, path: Path) -> str:
    text = str(error)
    if not isinstance(error, ValueError | OSError):
        return f"{type(error).__name__}: {text[:200]}"
    if "\n" in text and "do not fit the model" not in text:
        return f"several lines: {text[:200]!r}"
    if path.parent.name not in text and path.name not in text:
        return f"no name: {text[:200]!r}"
    return ""


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(seed: int, count: int):
    warnings.simplefilter("ignore")
    rng, problems, total, refused = random.Random(seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path, mutate, read, share in list(readers(Path(folder))):
            content = path.read_bytes()
            read(path)  # the original is sound
            before = peak()
            for _ in range(max(int(share * count), 1)):
                total += 1
                path.write_bytes(mutate(content, rng))
                try:
                    read(path)
                except Exception as error:
                    refused += 1
                    if what := problem(error, path):
                        problems += 1
                        print(f"{name}: {what}", flush=True)
            if (growth := peak() - before) > MAX_GROWTH:
                problems += 1
                print(f"{name}: {growth:,} bytes more memory", flush=True)
            path.write_bytes(content)
    print(f"{total} files, {refused} refused, {problems} problems")
    return problems > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
