# %% [markdown]
# # Export and serve
#
# A pipeline becomes a folder that other programs can run: a SavedModel for TensorFlow and
# TensorFlow Serving, or a small file for phones. The folder contains everything between the bytes
# of an image, or a string, and the answer. We train two very small models, so that there is
# something to serve.

# %%
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.data import (
    Augmentation,
    ImageBatches,
    PairBatches,
    load_images,
    load_pairs,
    train_tokenizer,
)
from tfx_transformer.export import export, load
from tfx_transformer.export.saved_model import inspect
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Classifier, Translator
from tfx_transformer.training.losses import TokenCrossentropy

STEPS = 2 if "SMALL" in os.environ else 300  # a test runs every line in seconds
keras.utils.set_random_seed(0)

# %% [markdown]
# ## A classifier of digits

# %%
train, test = load_images("embedded:digits"), load_images("embedded:digits", "test")
batches = ImageBatches(
    train, image_size=8, batch_size=64, augmentation=Augmentation(crop="none", flip=False)
)
sizes = {"dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}
model = create_model("vit", num_classes=10, image_size=8, patch_size=2, **sizes)
model.compile(
    keras.optimizers.Adam(2e-3),
    keras.losses.CategoricalCrossentropy(from_logits=True),
    jit_compile=False,
)
model.fit(batches.stream(), steps_per_epoch=STEPS, shuffle=False, verbose=0)
classifier = Classifier(model, train.class_names, top_k=3)
print(classifier(test.items[0]), "is", test.class_names[test.labels[0]])

# %% [markdown]
# ## The folder
#
# TensorFlow Serving expects folders NAME/VERSION; with a new version in a new folder it switches
# without a pause. `export` writes a folder completely or not at all, and never into one that
# exists.

# %%
export(classifier, "exported/digits/1")
for path in sorted(Path("exported/digits").rglob("*")):
    if path.is_file():
        print(path)

# %% [markdown]
# Signatures are the functions that others can call. `serving_default` takes the bytes of image
# files, `images` takes pixels from 0 to 1. (`tfx-transformer inspect exported/digits/1` prints the
# same.)

# %%
print(inspect("exported/digits/1"))

# %% [markdown]
# ## In a fresh process
#
# A server needs TensorFlow, and nothing of this package. The second file of this batch is not an
# image: it gets an empty label, and the others are not affected.

# %%
image = test.items[0]
Path("exported/digit.png").write_bytes(image)
program = """
import sys
sys.modules["tfx_transformer"] = None  # an import of this package would fail
import tensorflow as tf
model = tf.saved_model.load("exported/digits/1")
files = [open("exported/digit.png", "rb").read(), b"not an image"]
outputs = model.signatures["serving_default"](image=tf.constant(files))
for name in ("label", "score", "is_readable"):
    print(name, outputs[name].numpy())
"""
result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
print(result.stdout)

# %% [markdown]
# Where this package is installed, `load` is shorter. The loaded export is called as the pipeline:

# %%
print(load("exported/digits/1")(image))

# %% [markdown]
# ## TensorFlow Serving
#
# The official image serves the folder over REST and gRPC:
#
# ```sh
# docker run -p 8501:8501 -e MODEL_NAME=digits \
#     -v "$PWD/exported/digits:/models/digits" tensorflow/serving
# ```
#
# A request to `http://localhost:8501/v1/models/digits:predict` is JSON. Bytes are written in
# base64:

# %%
request = {"instances": [{"image": {"b64": base64.b64encode(image).decode()}}]}
print(json.dumps(request)[:76], "…")

# %% [markdown]
# ## Strings in, strings out
#
# A translator is exported in the same way, with tokenizer and beam search inside. This one learns
# twelve words by heart.

# %%
words = (
    "one eins two zwei three drei four vier five fünf six sechs seven sieben eight acht nine neun"
)
words = f"{words} ten zehn eleven elf twelve zwölf".split()
pairs = load_pairs(list(zip(words[::2], words[1::2], strict=True)))
tokenizer = train_tokenizer(words, vocab_size=320)
batches = PairBatches(pairs, tokenizer, tokenizer, token_budget=256, max_length=16)
model = create_model("transformer", vocab_size=tokenizer.vocab_size, dropout=0.0, **sizes)
model.compile(keras.optimizers.Adam(3e-3), TokenCrossentropy(), jit_compile=False)
model.fit(batches.stream(), steps_per_epoch=STEPS, shuffle=False, verbose=0)
translator = Translator(model, tokenizer, tokenizer, max_length=16)
export(translator, "exported/numbers/1")
print(inspect("exported/numbers/1"))

# %% [markdown]
# The tokenizer is inside, as operations of TensorFlow. The signature `limited` takes a maximum
# length with each call, `ids` takes token ids.

# %%
served = tf.saved_model.load("exported/numbers/1").signatures["serving_default"]
for text in served(text=tf.constant(["seven", "twelve"]))["text"].numpy():
    print(text.decode())

# %% [markdown]
# ## Phones and small devices
#
# LiteRT (TensorFlow Lite) runs on phones. The file has weights of 8 bits, takes pixels from 0 to
# 1, and returns the probabilities of all classes; labels.txt has their names.

# %%
export(classifier, "exported/phone", format="litert")
for path in sorted(Path("exported/phone").glob("*")):
    print(f"{path.name:14} {path.stat().st_size:8,} bytes")

# %%
interpreter = tf.lite.Interpreter("exported/phone/model.tflite")
run = interpreter.get_signature_runner()
pixels, _ = classifier.read(tf.constant([image]))  # (1, 8, 8, 3), 0 … 255
scores = run(image=pixels.numpy() / 255)["scores"][0]
labels = Path("exported/phone/labels.txt").read_text().split()
print("LiteRT    ", labels[np.argmax(scores)], scores.max().round(3))
print("SavedModel", classifier(image))

# %% [markdown]
# All formats and their limits: [Export formats](../guides/export.md). Servers:
# [Serving](../guides/serving.md).
