"""The memory network against its definition in loops: hops, tying, positions, times."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.models import create_model
from tfx_transformer.models.memory_network import MemoryNetwork

STORY = np.array(
    [[[4, 5, 6, 3], [7, 4, 0, 0], [5, 9, 3, 0]], [[4, 7, 2, 0], [6, 0, 0, 0], [0, 0, 0, 0]]]
)
QUESTION = np.array([[7, 8, 6, 3, 9], [9, 5, 0, 0, 0]])
INPUTS = {"story": STORY, "question": QUESTION}


def numpy(x):
    return ops.convert_to_numpy(x)


def make(randomize, **options):
    options = {"vocab_size": 11, "dim": 5, "num_hops": 3, "max_sentences": 7} | options
    return randomize(create_model("memory_network", **options))


# the definition


def sentence_vector(ids, table, kind):
    words = [word for word in ids if word]
    vector = np.zeros(table.shape[1])
    for j, word in enumerate(words, 1):
        for k in range(1, table.shape[1] + 1):
            position = (1 - j / len(words)) - (k / table.shape[1]) * (1 - 2 * j / len(words))
            vector[k - 1] += table[word, k - 1] * (1 if kind == "bag" else position)
    return vector


def memory(story, layer, kind):
    words, places = numpy(layer.words.table), numpy(layer.places.table)
    sentences = [ids for ids in story if any(ids)]
    last = len(sentences) - 1
    return np.array(
        [sentence_vector(x, words, kind) + places[last - i] for i, x in enumerate(sentences)]
    )


def definition(model, story, question):
    adjacent, kind = model.tie == "adjacent", model.sentence
    first = model.memories[0] if adjacent else model.question
    u = sentence_vector(question, numpy(first.words.table), kind)
    hops = []
    for hop in range(model.num_hops):
        a, c = (model.memories[hop + i if adjacent else i] for i in (0, 1))
        scores = memory(story, a, kind) @ u
        weights = np.exp(scores) / np.exp(scores).sum()
        if model.linear_start:
            weights = scores
        read = weights @ memory(story, c, kind)
        u = read + (u if adjacent else u @ numpy(model.between.kernel))
        hops.append(weights)
    head = numpy(model.memories[-1].words.table).T if adjacent else numpy(model.head.kernel)
    return u @ head, hops


@pytest.mark.parametrize("linear_start", [False, True])
@pytest.mark.parametrize("sentence", ["bag", "position"])
@pytest.mark.parametrize("tie", ["adjacent", "layerwise"])
def test_it_is_the_network_of_the_paper(tie, sentence, linear_start, randomize):
    model = make(randomize, tie=tie, sentence=sentence, linear_start=linear_start)
    logits, maps = numpy(model(INPUTS)), model.attention_maps(INPUTS)
    for row in range(2):
        expected, hops = definition(model, STORY[row], QUESTION[row])
        np.testing.assert_allclose(logits[row], expected, rtol=1e-4, atol=1e-4)
        for i, weights in enumerate(hops):
            found = numpy(maps[f"hop_{i}/cross"])[row, 0, 0]
            np.testing.assert_allclose(found[: len(weights)], weights, rtol=1e-4, atol=1e-4)
            assert not found[len(weights) :].any()


def test_a_model_has_the_parameters_that_its_sizes_give():
    sizes = {"vocab_size": 13, "dim": 7, "num_hops": 4, "max_sentences": 9}
    tables = 13 * 7 + 9 * 7
    expected = {"adjacent": 5 * tables, "layerwise": 2 * tables + 13 * 7 + 7 * 7 + 7 * 13}
    for tie, count in expected.items():
        model = create_model("memory_network", tie=tie, **sizes)
        assert sum(int(np.prod(w.shape)) for w in model.trainable_weights) == count


def test_the_variants_are_those_of_the_paper():
    assert {k: v["dim"] for k, v in MemoryNetwork.variants.items()} == {
        "test": 6,
        "single": 20,
        "joint": 50,
    }
    weights = create_model("memory_network", "joint", vocab_size=300).trainable_weights
    values = np.concatenate([numpy(weight).ravel() for weight in weights])
    assert abs(values.std() - 0.1) < 0.005 and abs(values.mean()) < 0.005


# order


def test_a_bag_of_words_has_no_order_and_positions_have(randomize):
    swapped = {"story": STORY[:, :, [1, 0, 2, 3]], "question": QUESTION}
    for sentence, is_same in (("bag", True), ("position", False)):
        model = make(randomize, sentence=sentence)
        difference = np.abs(numpy(model(INPUTS)) - numpy(model(swapped)))[0].max()
        assert (difference < 1e-5) == is_same


def test_the_order_of_sentences_matters_and_padding_does_not(randomize):
    model = make(randomize)
    logits = numpy(model(INPUTS))
    reversed_ = {"story": STORY[:, [2, 1, 0]], "question": QUESTION}
    assert np.abs(numpy(model(reversed_))[0] - logits[0]).max() > 1e-3
    padded = {
        "story": np.pad(STORY, [(0, 0), (0, 2), (0, 3)]),
        "question": np.pad(QUESTION, [(0, 0), (0, 1)]),
    }
    np.testing.assert_allclose(numpy(model(padded)), logits, atol=1e-5)


def test_earlier_sentences_than_the_places_share_the_first(randomize):
    model = make(randomize, max_sentences=2)
    same = np.array([[[4, 5], [4, 5], [6, 7], [8, 9]]])
    weights = numpy(model.attention_maps({"story": same, "question": QUESTION[:1]})["hop_0/cross"])
    assert weights[0, 0, 0, 0] == pytest.approx(weights[0, 0, 0, 1], rel=1e-5)


# training


def test_in_training_empty_sentences_move_the_places():
    model = create_model("memory_network", "test", vocab_size=11, max_sentences=50, time_noise=0.25)
    is_sentence = ops.convert_to_tensor(np.arange(12) < np.full((2000, 1), 9))
    np.testing.assert_array_equal(numpy(model.times(is_sentence))[0, :9], range(8, -1, -1))
    times = numpy(model.times(is_sentence, training=True))[:, :9]
    steps = times[:, :-1] - times[:, 1:]
    assert set(np.unique(steps)) == {1, 2} and not times[:, 8].any()
    assert abs((steps == 2).mean() - 0.25) < 0.02
    still = create_model("memory_network", "test", vocab_size=11, time_noise=0.0)
    assert numpy(still.times(is_sentence, training=True)).max() == still.max_sentences - 1


def test_a_linear_start_ends_and_is_saved(tmp_path, randomize):
    model = make(randomize, linear_start=True)
    linear = numpy(model(INPUTS))
    model.end_linear_start()
    logits = numpy(model(INPUTS))
    assert np.abs(logits - linear).max() > 1e-3
    np.testing.assert_allclose(logits[0], definition_of(model)[0], atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(INPUTS)), logits, atol=1e-6)


def definition_of(model):
    """The logits with softmax, whatever the model began with."""
    plain = MemoryNetwork.from_config(model.get_config() | {"linear_start": False})
    plain.build()
    for ours, theirs in zip(plain.trainable_weights, model.trainable_weights, strict=True):
        ours.assign(theirs)
    return definition(plain, STORY[0], QUESTION[0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tie": "all"}, "unknown tie 'all'; known: adjacent, layerwise"),
        ({"sentence": "words"}, "unknown sentence 'words'; known: bag, position"),
        ({"num_hops": 0}, "num_hops must be a whole number above zero"),
        ({"time_noise": 1.0}, "time_noise must lie in 0 <= time_noise < 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("memory_network", "test", vocab_size=11, **options)
