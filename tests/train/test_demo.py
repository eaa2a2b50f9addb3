import numpy as np

from tfx_transformer.train.demo import COUNT, LENGTH, draw_batch, run


def test_the_copy_is_the_letters_and_only_it_counts():
    tokens, targets, weights = draw_batch(np.random.default_rng(0), 3)
    assert tokens.shape == targets.shape == weights.shape == (3, LENGTH)
    assert (targets[:, COUNT:] == tokens[:, :COUNT]).all()
    assert (targets[:, :-1] == tokens[:, 1:]).all()
    assert (weights.sum(axis=1) == COUNT).all() and (weights[:, :COUNT] == 0).all()


def test_one_block_learns_to_copy_and_draws_where_it_looks(tmp_path, capsys):
    assert run(str(tmp_path), steps=300) > 0.98
    assert (tmp_path / "attention.png").stat().st_size > 10_000
    assert "copied right" in capsys.readouterr().out
