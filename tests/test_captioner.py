"""Pictures in, sentences out, by an untrained model: nonsense, but the right one."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.captioner import Captioner
from tfx_transformer.data import END, PAD, START
from tfx_transformer.models import create_model

NAMES = ("text", "score", "n_best", "n_best_score", "tokens", "pieces", "weights")


def png(height, width, seed=0):
    """Patches of a few colours."""
    patches = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), "uint8")
    pixels = patches.repeat(-(-height // 3), axis=0).repeat(-(-width // 4), axis=1)
    return tf.io.encode_png(pixels[:height, :width]).numpy()


FILES = [png(31, 20), png(16, 47, 1), png(32, 32, 2), png(50, 60, 3), png(5, 9, 4)]


@pytest.fixture(scope="module")
def found(captioner):
    return captioner.caption(tf.constant(FILES))


def make(captioner, **options):
    """Another captioner, greedy, with a model of other options and as many words."""
    size = captioner.tokenizer.vocab_size
    model = create_model("show_attend_tell", "tiny", vocab_size=size, **options)
    model.build({"image": (None, 32, 32, 3), "target": (None, None)})
    return Captioner(model, captioner.tokenizer, "greedy", max_length=6)


def test_many_are_described_as_one_by_one_and_in_order(captioner, found):
    for row, file in enumerate(FILES):
        alone = captioner.caption(tf.constant([file]))
        assert alone["text"][0] == found["text"][row]
        np.testing.assert_allclose(alone["weights"][0], found["weights"][row], atol=1e-5)
    assert len(set(found["text"].numpy())) > 2  # it does not say the same of all
    lengths = (found["tokens"].numpy() != PAD).sum(axis=1)
    assert lengths.min() < lengths.max() == 9


def test_a_bad_picture_has_no_caption_and_the_others_keep_theirs(captioner, found):
    files = [b"", FILES[0], FILES[1][:50], b"GIF89a", *FILES[1:]]
    some = captioner.caption(tf.constant(files))
    good, bad = [1, 4, 5, 6, 7], [0, 2, 3]
    assert np.flatnonzero(some["is_readable"]).tolist() == good
    assert set(some) == {*NAMES, "is_readable"}
    for name in NAMES:
        kept, expected = some[name].numpy()[good], found[name].numpy()
        if kept.dtype == object:
            assert kept.tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(kept, expected, atol=1e-5)
        assert not some[name].numpy()[bad].any()  # no letter, no token, no score


def test_nothing_and_nothing_readable_are_answered(captioner):
    nothing = captioner.caption(tf.constant([], tf.string))
    assert nothing["text"].shape == (0,) and nothing["weights"].shape == (0, 9, 4, 4)
    assert captioner.caption(tf.constant([b"?", b"!"]))["text"].numpy().tolist() == [b"", b""]


def test_pixels_are_described_as_their_file(captioner, found):
    images, _ = captioner.read(tf.constant(FILES))
    assert images.shape == (5, 32, 32, 3) and images.numpy().max() > 200
    other = captioner.predict(images / 255)
    assert set(other) == set(NAMES)
    assert other["text"].numpy().tolist() == found["text"].numpy().tolist()


def test_the_model_sees_pixels_as_in_training(captioner):
    images, _ = captioner.read(tf.constant(FILES))
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = captioner.model.look((images.numpy() / 255 - mean) / deviation)
    np.testing.assert_allclose(captioner.look(images), expected, rtol=1e-3, atol=1e-3)


def test_the_stepwise_search_is_the_plain_one(captioner):
    """Greedy: one token after the other by the whole model, without a state."""
    greedy = Captioner(captioner.model, captioner.tokenizer, "greedy", 9)
    images, _ = captioner.read(tf.constant(FILES[3:4]))
    regions, target = captioner.look(images), [START]
    for _ in range(9):
        inputs = {"features": regions, "target": tf.constant([target])}
        logits = captioner.model(inputs).numpy()[0, -1]
        logits[[PAD, START]] = -np.inf
        target.append(int(np.argmax(logits)))
        if target[-1] == END:
            break
    tokens = greedy.tell(regions)["tokens"].numpy()[0]
    assert tokens[: len(target) - 1].tolist() == target[1:]
    assert (tokens[len(target) - 1 :] == PAD).all()


def test_the_best_is_the_first_of_some(captioner, found):
    assert found["n_best"].shape == found["n_best_score"].shape == (5, 2)
    assert found["n_best"].numpy()[:, 0].tolist() == found["text"].numpy().tolist()
    np.testing.assert_array_equal(found["n_best_score"][:, 0], found["score"])
    tokens = found["tokens"].numpy()
    texts = captioner.tokenizer.decode_list(tokens)
    assert [text.decode() for text in found["text"].numpy()] == texts
    for row, pieces in zip(tokens, found["pieces"].numpy(), strict=True):
        known = [captioner.tokenizer.id_to_piece(token) for token in row if token != PAD]
        assert [piece.decode() for piece in pieces if piece] == known


def test_every_token_is_said_of_some_regions(captioner, found):
    weights, tokens = found["weights"].numpy(), found["tokens"].numpy()
    assert weights.shape == (5, 9, 4, 4)
    np.testing.assert_allclose(weights.sum(axis=(2, 3)), tokens != PAD, atol=1e-5)
    images, _ = captioner.read(tf.constant(FILES))
    target = np.concatenate([np.full((5, 1), START), tokens[:, :-1]], axis=1)
    inputs = {"features": captioner.look(images), "target": target}
    maps = captioner.model.attention_maps(inputs)["decoder/cross"].numpy()  # (B, 1, T, S)
    for row, column in np.ndindex(4, 4):
        expected = maps[:, 0, :, 4 * row + column] * (tokens != PAD)
        np.testing.assert_allclose(weights[:, :, row, column], expected, atol=1e-5)


def test_a_model_that_looks_but_once_weighs_nothing(captioner):
    once = make(captioner, attention=None)
    weights = once.weigh(tf.ones([2, 16, 5]), tf.constant([[5, 6, END], [7, END, PAD]]))
    assert weights.shape == (2, 3, 4, 4) and not weights.numpy().any()


def test_what_is_drawn_is_another_at_each_call(captioner):
    images, _ = captioner.read(tf.constant(FILES))
    regions = captioner.look(images)
    drawing = Captioner(captioner.model, captioner.tokenizer, "sample", 9)
    assert len(drawing.seeds) == 1 and captioner.seeds == []
    first, second = (drawing.tell(regions)["tokens"].numpy() for _ in range(2))
    assert (first != second).any()


def test_half_precision_describes_too(captioner):
    half = make(captioner, dtype="mixed_bfloat16")
    found = half.caption(tf.constant(FILES[:2]))
    assert found["weights"].dtype == found["score"].dtype == tf.float32
    assert half.model.compute_dtype == "bfloat16" and found["tokens"].numpy().any()


def test_a_bad_length_is_named(captioner):
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Captioner(captioner.model, None, max_length=0)
