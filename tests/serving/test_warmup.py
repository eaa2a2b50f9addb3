"""After the warm-up no request meets a new shape."""

import numpy as np
import pytest

from tfx_transformer.serving.warmup import sample


def test_all_batch_sizes_of_all_groups_are_run(serve, toy):
    model = serve(max_batch_size=5)
    seen = []
    model.warm_up(lambda done, total: seen.append((done, total)))
    shapes = {(len(batch), len(batch[0]) // 128) for batch in toy.batches}
    assert {(size, group) for size in (1, 2, 4, 5) for group in (0, 2, 4)} - {(1, 0)} <= shapes
    assert seen == [(i, seen[0][1]) for i in range(seen[0][1] + 1)]


@pytest.mark.parametrize("kind", ["classifier", "captioner"])
def test_samples_of_images_are_readable(kind, request):
    from tfx_transformer.serving.model import ServedModel

    model = ServedModel(request.getfixturevalue(kind))
    arrays = sample(model, "serving_default", 0, 3)
    assert model.call(arrays, "serving_default")["is_readable"].tolist() == [True] * 3
    assert np.shape(sample(model, "images", 0, 2)["image"])[0] == 2


def test_a_failure_is_raised(serve, toy):
    toy.functions["serving_default"] = toy.functions["limited"] = toy.functions["ids"]
    model = serve()

    def stop(done, total):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        model.warm_up(stop)
