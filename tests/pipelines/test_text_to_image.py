"""Strings in, PNG files out, with untrained models."""

import base64
import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.data import START
from tfx_transformer.pipelines import TextToImage
from tfx_transformer.serving.tensors import show_outputs

TEXTS = ["red cat", "", "old big dog and blue cat"]


@pytest.fixture(scope="module")
def sampler(text_to_image):
    parts = text_to_image.model, text_to_image.image_model, text_to_image.tokenizer
    return TextToImage(*parts, {"kind": "sample", "n_best": 5, "seed": 3, "temperature": 2.0})


def pixels_of(file):
    return np.array(Image.open(io.BytesIO(file)))


def log_prob(pipeline, tokens):
    """Of the image in one row of tokens, one position after the other."""
    logits = np.array(pipeline.model(np.array([[START, *tokens[:-1]]])))[0].astype("float64")
    chosen = [
        row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, tokens, strict=True)
    ]
    return sum(chosen[pipeline.model.text_length :])


def test_the_image_is_that_of_the_most_likely_tokens(text_to_image):
    model, image_model = text_to_image.model, text_to_image.image_model
    prompts = text_to_image.prompts(tf.constant(TEXTS))[0].numpy()
    for text, prompt in zip(TEXTS, prompts, strict=True):
        row = [START, *prompt]
        for _ in range(4):  # greedy, without a cache
            row.append(int(np.argmax(np.array(model(np.array([row])))[0, -1])))
        codes = np.array(row[-4:]) - model.first_image_token
        expected = image_model.decode(codes.reshape(1, 2, 2))
        expected = np.clip(127.5 * (np.array(expected[0]) + 1), 0, 255).round()
        image = pixels_of(text_to_image(text))
        assert image.shape == (8, 8, 3) and image.dtype == np.uint8
        np.testing.assert_allclose(image, expected, atol=1)


def test_samples_are_ranked_by_the_log_probability_of_the_image(sampler):
    tokens, scores = sampler.sample(tf.constant(TEXTS))
    tokens, scores = tokens.numpy(), scores.numpy()
    assert tokens.shape == (3, 5, 14) and (np.diff(scores, axis=1) <= 0).all()
    for row, score in zip(tokens.reshape(-1, 14), scores.ravel(), strict=True):
        assert score == pytest.approx(log_prob(sampler, row.tolist()), abs=1e-3)
    assert len(np.unique(tokens[0], axis=0)) > 1


def test_a_result_has_all_images_best_first(sampler):
    (result,) = sampler.results(["red cat"])
    assert result.image == result.value == result.n_best[0][0] and len(result.n_best) == 5
    assert result.score == result.n_best[0][1] == max(score for _, score in result.n_best)
    tokens, scores = sampler.sample(tf.constant(["red cat"]))
    for (file, _), row in zip(result.n_best, sampler.pixels(tokens[0]).numpy(), strict=True):
        np.testing.assert_array_equal(pixels_of(file), row)
        assert file.startswith(b"\x89PNG")
    assert [score for _, score in result.n_best] == pytest.approx(scores[0].numpy(), abs=1e-4)


def test_a_seed_gives_the_same_images_and_none_others(sampler, text_to_image):
    assert sampler("red cat") == sampler("red cat")
    parts = text_to_image.model, text_to_image.image_model, text_to_image.tokenizer
    free = TextToImage(*parts, {"kind": "sample", "n_best": 4, "temperature": 3.0})
    text = tf.constant(["red cat"])
    drawn = [free.sample(text)[0].numpy().tolist() for _ in range(2)]
    assert drawn[0] != drawn[1] and len(free.seeds) == 1


def test_samples_of_a_row_depend_on_its_text_and_its_seed_alone(text_to_image):
    parts = text_to_image.model, text_to_image.image_model, text_to_image.tokenizer
    free = TextToImage(*parts, {"kind": "sample", "n_best": 4, "temperature": 3.0})

    def draw(texts, seeds):
        outputs = free.predict_seeded(tf.constant(texts), tf.constant(seeds))
        return outputs["n_best_bytes"].numpy().tolist()

    (cat,), (other,) = draw(["red cat"], [5]), draw(["red cat"], [6])
    assert cat != other
    assert draw(["big dog", "red cat", "red cat"], [5, 5, 6])[1:] == [cat, other]
    assert draw(["", "red cat"], [2**31 - 1, 5])[1] == cat
    assert set(free.signatures()) == {"serving_default", "seeded"}
    assert set(text_to_image.signatures()) == {"serving_default"}  # it decodes greedily


def test_texts_are_padded_by_position_and_cut(text_to_image):
    model, tokenizer = text_to_image.model, text_to_image.tokenizer
    prompts, truncated = text_to_image.prompts(tf.constant(["red cat", "blue " * 20]))
    ids = tokenizer.encode_list(["red cat"])[0]
    padding = [tokenizer.vocab_size + i for i in range(len(ids), 10)]
    assert prompts.numpy()[0].tolist() == ids + padding
    assert prompts.shape == (2, model.text_length) and truncated.numpy().tolist() == [False, True]


def test_the_predict_protocol_shows_images_as_base64(text_to_image):
    outputs = {name: x.numpy() for name, x in text_to_image.predict(tf.constant(TEXTS)).items()}
    rows = json.loads(json.dumps(show_outputs(outputs, as_rows=True)))["predictions"]
    for text, row in zip(TEXTS, rows, strict=True):
        assert base64.b64decode(row["image_bytes"]["b64"]) == text_to_image(text)
        assert row["n_best_bytes"] == [row["image_bytes"]]
