"""Images in, captions out, with an untrained model."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Captioner

NAMES = ("text", "score", "n_best", "n_best_score", "tokens", "pieces", "weights")


def png(height, width, seed=0):
    """Patches of a few colors."""
    patches = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), "uint8")
    pixels = patches.repeat(-(-height // 3), axis=0).repeat(-(-width // 4), axis=1)
    return tf.io.encode_png(pixels[:height, :width]).numpy()


FILES = [png(31, 20), png(16, 47, 1), png(32, 32, 2), png(50, 60, 3), png(5, 9, 4)]


@pytest.fixture(scope="module")
def outputs(captioner):
    return captioner.predict(tf.constant(FILES))


def make(captioner, **options):
    """A greedy captioner with the same tokenizer; `options` are of the model."""
    size = captioner.tokenizer.vocab_size
    model = create_model("show_attend_tell", "test", vocab_size=size, **options)
    return Captioner(model, captioner.tokenizer, "greedy", max_length=6)


def test_a_caption_does_not_depend_on_the_other_images_of_the_batch(captioner, outputs):
    for row, file in enumerate(FILES):
        alone = captioner.predict(tf.constant([file]))
        assert alone["text"][0] == outputs["text"][row]
        np.testing.assert_allclose(alone["weights"][0], outputs["weights"][row], atol=1e-5)
    assert len(set(outputs["text"].numpy())) > 2
    lengths = (outputs["tokens"].numpy() != PAD).sum(axis=1)
    assert lengths.min() < lengths.max() == 9


def test_an_unreadable_image_has_no_caption_and_the_others_keep_theirs(captioner, outputs):
    files = [b"", FILES[0], FILES[1][:50], b"GIF89a", *FILES[1:]]
    some = captioner.predict(tf.constant(files))
    good, bad = [1, 4, 5, 6, 7], [0, 2, 3]
    assert np.flatnonzero(some["is_readable"]).tolist() == good
    assert set(some) == {*NAMES, "is_readable"}
    for name in NAMES:
        kept, expected = some[name].numpy()[good], outputs[name].numpy()
        if kept.dtype == object:
            assert kept.tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(kept, expected, atol=1e-5)
        assert not some[name].numpy()[bad].any()


def test_a_batch_may_be_empty_or_without_a_readable_image(captioner):
    empty = captioner.predict(tf.constant([], tf.string))
    assert empty["text"].shape == (0,) and empty["weights"].shape == (0, 9, 4, 4)
    assert captioner.predict(tf.constant([b"?", b"!"]))["text"].numpy().tolist() == [b"", b""]


def test_pixels_have_the_caption_of_their_file(captioner, outputs):
    images, _ = captioner.read(tf.constant(FILES))
    assert images.shape == (5, 32, 32, 3) and images.numpy().max() > 200
    other = captioner.predict_pixels(images / 255)
    assert set(other) == set(NAMES)
    assert other["text"].numpy().tolist() == outputs["text"].numpy().tolist()


def test_pixels_are_normalized_as_in_training(captioner):
    images, _ = captioner.read(tf.constant(FILES))
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = captioner.model.encode_image((images.numpy() / 255 - mean) / deviation)
    np.testing.assert_allclose(captioner.encode(images), expected, rtol=1e-3, atol=1e-3)


def test_decoding_step_by_step_gives_the_tokens_of_the_whole_model(captioner):
    """Greedy decoding, without a state."""
    greedy = Captioner(captioner.model, captioner.tokenizer, "greedy", 9)
    images, _ = captioner.read(tf.constant(FILES[3:4]))
    features, target = captioner.encode(images), [START]
    for _ in range(9):
        inputs = {"features": features, "target": tf.constant([target])}
        logits = captioner.model(inputs).numpy()[0, -1]
        logits[[PAD, START]] = -np.inf
        target.append(int(np.argmax(logits)))
        if target[-1] == END:
            break
    tokens = greedy.describe(features)["tokens"].numpy()[0]
    assert tokens[: len(target) - 1].tolist() == target[1:]
    assert (tokens[len(target) - 1 :] == PAD).all()


def test_the_text_is_the_first_of_n_best(captioner, outputs):
    assert outputs["n_best"].shape == outputs["n_best_score"].shape == (5, 2)
    assert outputs["n_best"].numpy()[:, 0].tolist() == outputs["text"].numpy().tolist()
    np.testing.assert_array_equal(outputs["n_best_score"][:, 0], outputs["score"])
    tokens = outputs["tokens"].numpy()
    texts = captioner.tokenizer.decode_list(tokens)
    assert [text.decode() for text in outputs["text"].numpy()] == texts
    for row, pieces in zip(tokens, outputs["pieces"].numpy(), strict=True):
        expected = [captioner.tokenizer.pieces[token] for token in row if token != PAD]
        assert [piece.decode() for piece in pieces if piece] == expected


def test_weights_are_the_attention_of_each_token_to_the_regions(captioner, outputs):
    weights, tokens = outputs["weights"].numpy(), outputs["tokens"].numpy()
    assert weights.shape == (5, 9, 4, 4)
    np.testing.assert_allclose(weights.sum(axis=(2, 3)), tokens != PAD, atol=1e-5)
    images, _ = captioner.read(tf.constant(FILES))
    target = np.concatenate([np.full((5, 1), START), tokens[:, :-1]], axis=1)
    inputs = {"features": captioner.encode(images), "target": target}
    maps = captioner.model.attention_maps(inputs)["decoder/cross"].numpy()  # (B, 1, T, S)
    for row, column in np.ndindex(4, 4):
        expected = maps[:, 0, :, 4 * row + column] * (tokens != PAD)
        np.testing.assert_allclose(weights[:, :, row, column], expected, atol=1e-5)


def test_weights_of_a_model_without_attention_are_zero(captioner):
    weights = make(captioner, attention=None).attention(
        tf.ones([2, 16, 5]), tf.constant([[5, 6, END], [7, END, PAD]])
    )
    assert weights.shape == (2, 3, 4, 4) and not weights.numpy().any()


def test_sampling_without_a_seed_differs_from_call_to_call(captioner):
    images, _ = captioner.read(tf.constant(FILES))
    features = captioner.encode(images)
    sampling = Captioner(captioner.model, captioner.tokenizer, "sample", 9)
    assert len(sampling.seeds) == 1 and captioner.seeds == []
    first, second = (sampling.describe(features)["tokens"].numpy() for _ in range(2))
    assert (first != second).any()


def test_half_precision_gives_float32_scores(captioner):
    half = make(captioner, dtype="mixed_bfloat16")
    outputs = half.predict(tf.constant(FILES[:2]))
    assert outputs["weights"].dtype == outputs["score"].dtype == tf.float32
    assert half.model.compute_dtype == "bfloat16" and outputs["tokens"].numpy().any()


def test_max_length_must_be_positive(captioner):
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Captioner(captioner.model, None, max_length=0)
