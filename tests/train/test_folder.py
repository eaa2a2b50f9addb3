import pytest

from tfx_transformer.train.folder import (
    CaptionRun,
    check_folder,
    load_caption_run,
    load_classify_run,
    load_run,
    load_translate_run,
    open_folder,
)
from tfx_transformer.train.searching import Search


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


def test_a_captioner_searches_as_its_recipe_says_where_nothing_else_is_said(caption_run):
    loaded = load_run(caption_run[0])
    assert isinstance(loaded, CaptionRun)
    captioner = loaded.captioner()
    assert (captioner.decoder.width, captioner.decoder.n_best, captioner.max_length) == (3, 2, 8)
    assert captioner.normalisation == "half" and captioner.model is loaded.model
    other = loaded.captioner(Search(width=5, max_length=4))
    assert (other.decoder.width, other.decoder.n_best, other.max_length) == (5, 2, 4)


def test_the_card_of_a_captioner_tells_scores_and_pictures(caption_run, pictures, captions):
    card = load_run(caption_run[0]).card()
    assert card.startswith("# show_attend_tell, ") and f"Data: {pictures} {captions}" in card
    assert "- bleu_4: " in card and '"embedding_dim": 16' in card


LOADERS = {
    "translator": load_translate_run,
    "classifier": load_classify_run,
    "captioner": load_caption_run,
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_run_of_one_kind_is_none_of_another(kind, request):
    names = {"translator": "run", "classifier": "classify_run", "captioner": "caption_run"}
    folder = request.getfixturevalue(names[kind])[0]
    for asked, load in LOADERS.items():
        if asked == kind:
            assert load(folder).folder == folder
        else:
            with pytest.raises(ValueError, match=f"holds a {kind}, not a {asked}"):
                load(folder)


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
