# %% [markdown]
# # A Vision Transformer, and where it looks
#
# We train a small Vision Transformer (ViT) on scans of handwritten digits, and look at its
# attention.

# %%
import os

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.data import Augmentation, ImageBatches, load_images
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Classifier
from tfx_transformer.training.schedules import Cosine
from tfx_transformer.visualization.images import (
    plot_distances,
    plot_image_heads,
    plot_predictions,
    plot_rollout,
    plot_similarities,
)
from tfx_transformer.visualization.rollout import (
    mean_attention_distance,
    position_similarity,
    token_attention,
    token_rollout,
)

SMALL = "SMALL" in os.environ  # a test sets it, to run every line in seconds
EPOCHS, STEPS = (1, 2) if SMALL else (6, 400)
SOURCE, SIZE, PATCH = "embedded:mnist", 28, 4

# %% [markdown]
# ## The images
#
# `load_images` also takes a folder of photos with a sub-folder for each class, a zip file or a
# TFDS name. Images stay encoded until a batch needs them.

# %%
train, test = load_images(SOURCE), load_images(SOURCE, "test")
print(train)
print(test)

# %% [markdown]
# A digit may be moved a little, but must not be mirrored as photos are.

# %%
augmentation = Augmentation(crop="pad", padding=0.1, flip=False)
batches = ImageBatches(train, SIZE, batch_size=64, augmentation=augmentation)
images, targets, weights = next(iter(batches.dataset()))
print("images", images.shape, "from", images.numpy().min(), "to", images.numpy().max())
print("targets", targets.shape)

# %% [markdown]
# ## The model
#
# A ViT cuts the image into patches. Each patch becomes a token by one matrix, gets the vector of
# its position, and passes through the blocks of a Transformer encoder. A class token is put in
# front; after the last block it holds what the classifier needs.

# %%
keras.utils.set_random_seed(0)
model = create_model(
    "vit",
    num_classes=10,
    image_size=SIZE,
    patch_size=PATCH,
    dim=64,
    depth=4,
    num_heads=4,
    mlp_dim=128,
    dropout=0.1,
)
rows, columns = grid = model.grid(model.input_shapes())
print(
    f"{rows} × {columns} patches of {PATCH} × {PATCH} pixels, {model.count_params():,} parameters"
)

# %% [markdown]
# ## Training
#
# It is a Keras model: `compile` and `fit`.

# %%
model.compile(
    keras.optimizers.AdamW(Cosine(2e-3, warmup_steps=STEPS // 2, total_steps=EPOCHS * STEPS)),
    keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
    metrics=["accuracy"],
    jit_compile=False,
)
history = model.fit(
    batches.stream(), epochs=EPOCHS, steps_per_epoch=STEPS, shuffle=False, verbose=0
)
for name, values in history.history.items():
    print(f"{name:9}", *(f"{value:.3f}" for value in values))

# %% [markdown]
# ## Predictions
#
# `Classifier` is the model with everything around it: the bytes of an image file in, class names
# out.

# %%
classifier = Classifier(model, train.class_names)
predictions = classifier(test.items[: 10 if SMALL else None])
answers = [max(scores, key=scores.get) for scores in predictions]
names = [test.class_names[label] for label in test.labels]
right = np.array([answer == name for answer, name in zip(answers, names, strict=False)])
print(f"{right.mean():.1%} of {len(right)} test images are right")

# %%
shown = range(8)
pixels, _ = classifier.read(tf.constant([test.items[i] for i in shown]))  # (B, h, w, 3), 0 … 255
texts = [f"{answers[i]}, {max(predictions[i].values()):.0%}" for i in shown]
wrong = [not right[i] for i in shown]
plot_predictions(pixels.numpy() / 255, texts, "pictures/vision_predictions.png", wrong=wrong)

# %% [markdown]
# ![Eight test images with their predictions](pictures/vision_predictions.png)
#
# ## Where it looks
#
# `attention_maps` returns the attention weights of every block. Token 0 is the class token: its
# row says which patches the classifier reads.

# %%
image = pixels[:1]
maps = model.attention_maps(image / 127.5 - 1)  # normalized as in training
print({name: tuple(weights.shape) for name, weights in maps.items()})
maps = [np.asarray(weights)[0] for weights in maps.values()]  # (H, N, N) each

# %%
picture = image[0].numpy() / 255
heads = token_attention(maps[-1], grid)
plot_image_heads(picture, heads, "pictures/vision_heads.png", "Attention of the class token")

# %% [markdown]
# ![Attention of the class token in the last block, by head](pictures/vision_heads.png)
#
# The last block reads tokens that have already gathered information from other patches. *Attention
# rollout* follows the attention through all blocks back to the image.

# %%
plot_rollout(picture, token_rollout(maps, grid), "pictures/vision_rollout.png", "Attention rollout")

# %% [markdown]
# ![Attention rollout over the image](pictures/vision_rollout.png)
#
# ## Near and far
#
# A convolution sees its neighborhood. Attention may see the whole image from the first block on.
# The mean distance of each head shows what it has learned.

# %%
distances = mean_attention_distance(maps, grid, PATCH)
plot_distances(distances, "pictures/vision_distances.png", "Mean attention distance")
print(distances.round(1))

# %% [markdown]
# ![Mean attention distance of each head, by block](pictures/vision_distances.png)
#
# ## Positions
#
# The model gets the patches as a list, without their places in the image. Its learned position
# vectors show how much of the grid it has found. Each small map compares one position with all
# others.

# %%
zeros = np.zeros((1, rows * columns, model.dim), "float32")
positions = np.asarray(model.position_embedding(zeros, grid=grid))[0]  # (N, D)
similarity = position_similarity(positions)
plot_similarities(similarity, grid, "pictures/vision_positions.png", "Similarity of positions")

# %% [markdown]
# ![Similarity of the position embeddings](pictures/vision_positions.png)
#
# Most positions resemble those around them: the model has found the grid. At the border, where the
# images are black, it had no reason to.
#
# With your own photos: [Classify your photos](../guides/classification.md). More models of images,
# compared: [Attention on images](../attention_on_images.md).
