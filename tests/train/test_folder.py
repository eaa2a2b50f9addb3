import pytest

from tfx_transformer.train.folder import check_folder, load_run, open_folder
from tfx_transformer.train.recipe import Search


def test_the_card_tells_scores_and_recipe(run):
    card = load_run(run[0]).card()
    assert "bleu" in card and '"learning_rate": 0.005' in card and "train.en" in card


def test_many_sentences_are_translated_as_one_by_one(run):
    translator = load_run(run[0]).translator()
    texts = ["red cat", "", "big old blue dog", "dog", "red " * 100]
    together = translator(texts, batch_size=2)
    assert together == [translator([text])[0] for text in texts]
    assert together[1] == ""


def test_one_vocabulary_is_one_tokenizer(run):
    source, target = load_run(run[0]).tokenizers
    assert source is target


def test_the_search_is_the_recipe_s_where_nothing_else_is_said(run):
    loaded = load_run(run[0])
    assert (loaded.translator().decoder.width, loaded.translator().max_length) == (3, 16)
    other = loaded.translator(Search(width=5, max_length=9))
    assert (other.decoder.width, other.decoder.n_best, other.max_length) == (5, 2, 9)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no finished run"):
        load_run(tmp_path)


def test_a_run_without_a_checkpoint_leaves_its_folder_free(recipe_of, tmp_path):
    open_folder(recipe_of(), tmp_path)
    (tmp_path / "tokenizer").mkdir()
    other = recipe_of(seed=3)
    check_folder(other, tmp_path)
    open_folder(other, tmp_path)
    assert not (tmp_path / "tokenizer").exists()  # it was of the other data
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step_00000010.npz").touch()
    check_folder(other, tmp_path)
    with pytest.raises(ValueError, match="holds a run of another recipe: seed changed"):
        check_folder(recipe_of(), tmp_path)
