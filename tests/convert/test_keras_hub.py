"""Language models of keras-hub decode and export as ours do, with the tokens of its `generate`."""

import io
import json
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tokenizers

from tfx_transformer.convert.keras_hub import (
    check_preset,
    find_kind,
    load_keras_hub,
    wrap_keras_hub,
)
from tfx_transformer.data.text.tokenizer import END, PAD, START
from tfx_transformer.export import export
from tfx_transformer.train.run_folder import load_pipeline

models = pytest.importorskip("keras_hub").models
pytestmark = [
    pytest.mark.xdist_group("keras_hub"),
    # keras-hub's own, of its T5
    pytest.mark.filterwarnings("ignore:Layer '(self|cross)_attention'"),
    pytest.mark.filterwarnings("ignore:Exception encountered when calling T5TransformerLayer"),
    # keras-hub does not close SentencePiece models
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*FileIO"),
]
TEXTS = ["the cat sat on the mat", "a small cat is here, there and now!", "she sat on a hat."]
PROMPTS = ["the cat", "a hat sat on the mat, now"]
SIZES = dict(num_layers=1, hidden_dim=16, intermediate_dim=24)
BYTE_LEVEL = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
LENGTH = 24


def byte_level(special):
    """The vocabulary and merges of a byte-level tokenizer of the texts."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = BYTE_LEVEL
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290, initial_alphabet=BYTE_LEVEL.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = model["vocab"]
    vocabulary |= {token: len(vocabulary) + i for i, token in enumerate(special)}
    return vocabulary, [" ".join(pair) for pair in model["merges"]]


def pieces(**options):
    """A SentencePiece model of the texts."""
    model = io.BytesIO()
    options |= dict(vocab_size=60, hard_vocab_limit=False, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, **options
    )
    return model.getvalue()


def gpt2():
    vocabulary, merges = byte_level(["<|endoftext|>"])
    return models.GPT2CausalLM(
        models.GPT2Backbone(len(vocabulary), num_heads=4, max_sequence_length=40, **SIZES),
        models.GPT2CausalLMPreprocessor(models.GPT2Tokenizer(vocabulary, merges), 40),
    )


def llama():
    tokenizer = models.LlamaTokenizer(pieces())
    size = tokenizer.vocabulary_size()
    return models.LlamaCausalLM(
        models.LlamaBackbone(size, num_query_heads=4, num_key_value_heads=2, **SIZES),
        models.LlamaCausalLMPreprocessor(tokenizer, 40),
    )


def bart():
    vocabulary, merges = byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    return models.BartSeq2SeqLM(
        models.BartBackbone(len(vocabulary), num_heads=4, max_sequence_length=40, **SIZES),
        models.BartSeq2SeqLMPreprocessor(models.BartTokenizer(vocabulary, merges), 30, LENGTH),
    )


def t5():
    """With more embeddings than pieces, as published ones have."""
    tokenizer = models.T5Tokenizer(pieces(bos_id=-1, pad_id=0, eos_id=1, unk_id=2))
    return models.T5Seq2SeqLM(
        models.T5Backbone(tokenizer.vocabulary_size() + 4, num_heads=4, **SIZES),
        models.T5Seq2SeqLMPreprocessor(tokenizer, 30, LENGTH),
    )


MAKERS = {"bart": bart, "gpt2": gpt2, "llama": llama, "t5": t5}


def zero_rows(weight, ids, axis):
    if weight is not None:
        keep = np.ones(weight.shape, "float32")
        np.moveaxis(keep, axis, 0)[ids] = 0
        weight.assign(weight * keep)


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """A function: name → the model with random weights, and its folder; made once."""
    made = {}

    def get(name):
        if name not in made:
            task, rng = MAKERS[name](), np.random.default_rng(1)
            for weight in task.weights:
                if "seed" not in weight.path:
                    weight.assign(rng.normal(0, 0.4, weight.shape))
            # keras-hub may generate START and padding, our decoders never do
            table, tokenizer = task.backbone.token_embedding, task.preprocessor.tokenizer
            ids = {tokenizer.start_token_id, tokenizer.pad_token_id} - {tokenizer.end_token_id}
            for axis, part in enumerate(("embeddings", "reverse_embeddings")):
                zero_rows(getattr(table, part, None), [*ids], axis)
            task.save_to_preset(folder := tmp_path_factory.mktemp("hub") / name)
            made[name] = task, folder
        return made[name]

    return get


@pytest.fixture(scope="module")
def generators(presets):
    """A function: name → the pipeline that decodes greedily, loaded from the folder once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = load_keras_hub(f"keras_hub:{presets(name)[1]}", "greedy")
        return made[name]

    return get


def generate(task, text):
    """The ids that `generate` of keras-hub adds to a prompt, with END, and those of the prompt."""
    preprocessor = task.preprocessor
    task.compile(sampler="greedy")
    task.run_eagerly = True
    inputs = preprocessor.generate_preprocess([text], sequence_length=LENGTH)
    try:
        task.preprocessor = None
        stop = (preprocessor.tokenizer.end_token_id,)
        result = task.generate(dict(inputs), stop_token_ids=stop)
    finally:
        task.preprocessor = preprocessor
    part = "decoder_" if "decoder_token_ids" in inputs else ""
    ids = result[part + "token_ids"][0][np.array(result[part + "padding_mask"][0], bool)]
    count = int(np.sum(np.array(inputs[part + "padding_mask"])))
    return ids[count:].tolist(), ids[:count].tolist()


def check_tokens(rows, pipeline, task):
    """Our tokens (2, T) of the prompts are those of keras-hub."""
    for text, row in zip(PROMPTS, rows, strict=True):
        expected, _ = generate(task, text)
        found = pipeline.model.ids[row[row != PAD]].tolist()
        assert expected and found[: len(expected)] == expected[: len(found)]
        if expected[-1] == pipeline.model.ids[END]:
            assert found == expected


@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "t5"))]
)
def test_greedy_tokens_are_those_of_keras_hub(name, presets, generators):
    task, pipeline = presets(name)[0], generators(name)
    outputs = pipeline.predict(np.array(PROMPTS, object))  # prompts of unequal length together
    check_tokens(outputs["tokens"].numpy(), pipeline, task)
    if name == "gpt2":
        for text in PROMPTS:
            ids = pipeline.tokenizer.encode([text]).to_list()[0]
            assert pipeline.model.ids[[START, *ids]].tolist() == generate(task, text)[1]


def test_logits_are_those_of_keras_hub_one_token_or_a_chunk_at_a_time(presets, generators):
    task, model = presets("gpt2")[0], generators("gpt2").model
    tokens = np.random.default_rng(0).integers(4, len(model.ids), (2, 9))
    ids = {"token_ids": model.ids[tokens], "padding_mask": np.ones_like(tokens)}
    whole = keras.ops.convert_to_numpy(model.to_ours(task(ids)))
    state, logits = model.initial_state(tokens, 9), []
    for index, chunk in ((0, tokens[:, :4]), (4, tokens[:, 4:7]), (7, tokens[:, 7]), (8, None)):
        chunk = tokens[:, 8] if chunk is None else chunk
        step, state = model.step(chunk, state, index)
        logits.append(keras.ops.convert_to_numpy(step).reshape(2, -1, len(model.ids)))
    np.testing.assert_allclose(np.concatenate(logits, axis=1), whole, rtol=0, atol=1e-4)


SERVE = """
import pickle, sys
import tensorflow as tf
for name in ("tensorflow_text", "keras", "keras_hub", "tfx_transformer"):
    sys.modules[name] = None
answers = []
for folder, batches in pickle.load(sys.stdin.buffer):
    function = tf.saved_model.load(folder).signatures["serving_default"]
    for texts in batches:
        outputs = function(text=tf.constant(texts, tf.string))
        answers.append({name: outputs[name].numpy() for name in ("text", "score", "tokens")})
pickle.dump(answers, sys.stdout.buffer)
"""


def test_exports_need_tensorflow_alone(presets, generators, tmp_path):
    """Greedy BART, and GPT-2 with a beam and a length penalty, in one new process."""
    beam = {"kind": "beam", "width": 3, "length_penalty": 1.0}
    bart, gpt2 = generators("bart"), wrap_keras_hub(presets("gpt2")[0], beam, max_length=9)
    folders = [export(pipeline, tmp_path / pipeline.kind) for pipeline in (bart, gpt2)]
    requests = [(str(folders[0]), [PROMPTS, [""], []]), (str(folders[1]), [PROMPTS, []])]
    command = [sys.executable, "-c", SERVE]
    result = subprocess.run(command, input=pickle.dumps(requests), capture_output=True, timeout=300)
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    greedy, empty, none, best, nothing = pickle.loads(result.stdout)
    check_tokens(greedy["tokens"], bart, presets("bart")[0])
    assert empty["text"].tolist() == [b""]
    assert none["text"].shape == nothing["text"].shape == (0,)
    expected = gpt2.predict(np.array(PROMPTS, object))
    assert best["text"].tolist() == expected["text"].numpy().tolist() and any(best["text"])
    np.testing.assert_allclose(best["score"], expected["score"], rtol=1e-4)
    assert best["score"][0] != best["score"][1]


@pytest.mark.slow
def test_an_export_samples_other_tokens_at_each_call(presets, tmp_path):
    folder = export(wrap_keras_hub(presets("gpt2")[0]), tmp_path / "samples")
    predict = tf.saved_model.load(str(folder)).signatures["serving_default"]
    texts = {predict(text=tf.constant(["the cat"]))["text"].numpy()[0] for _ in range(4)}
    assert len(texts) > 1


def test_a_folder_or_handle_is_a_pipeline_for_the_commands(presets):
    folder = presets("bart")[1]
    translator = load_pipeline(f"keras_hub:{folder}", max_length=7, kind="beam", width=2)
    assert translator.kind == "translator" and translator.decoder.width == 2
    assert translator.max_length == 7
    generator = load_pipeline(str(presets("gpt2")[1]))
    assert generator.kind == "generator" and generator.decoder.top_k == 5


def test_a_model_without_a_tokenizer_is_refused():
    backbone = models.GPT2Backbone(9, num_heads=2, max_sequence_length=8, **SIZES)
    with pytest.raises(ValueError, match="GPT2CausalLM must have a preprocessor with a tokenizer"):
        wrap_keras_hub(models.GPT2CausalLM(backbone))


@pytest.fixture
def changed(presets, tmp_path):
    """Copies the folder of GPT-2 with changes of the config in one of its JSON files."""

    def change(file, **changes):
        for path in presets("gpt2")[1].glob("*.*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        content = json.loads((tmp_path / file).read_text())
        content["config"] |= changes
        (tmp_path / file).write_text(json.dumps(content))
        return tmp_path

    return change


@pytest.mark.parametrize(
    "file, changes, message",
    [
        ("tokenizer.json", {"x": {"module": "os", "class_name": "system"}}, "module must be of"),
        ("task.json", {"x": [{"class_name": "__lambda__"}]}, "class_name must not be Lambda"),
        ("config.json", {"hidden_dim": 10**7}, "its sizes must fit to the"),
        ("config.json", {"num_layers": 10**7}, "its sizes must fit to the"),
        ("config.json", {"max_sequence_length": 10**9}, "its sizes must fit to the"),
    ],
)
def test_a_hostile_preset_is_refused_before_keras_hub_reads_it(file, changes, message, changed):
    folder = changed(file, **changes)
    with pytest.raises(ValueError, match=message):
        check_preset(folder)


def test_other_folders_are_refused(presets, tmp_path):
    assert find_kind(tmp_path) is None
    models.ViTBackbone((8, 8, 3), 4, 1, 1, 4, 4).save_to_preset(tmp_path / "vit")
    assert find_kind(tmp_path / "vit") is None
    with pytest.raises(ValueError, match="must be a preset of keras-hub with one of GPT2Backbone"):
        load_keras_hub(tmp_path / "vit")
