from tfx_transformer.train import bert_text


def test_the_recipe_is_whole(check_recipe):
    tables = (101 + 2 + 64 + 2) * 128  # words, segments, positions, norm
    head = 128 * 129 + 2 * 128 + 101
    assert check_recipe(bert_text) == tables + 2 * (12 * 128**2 + 13 * 128) + head
