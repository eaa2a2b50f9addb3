import tensorflow as tf

from tfx_transformer.training.tensorboard import TensorBoardLog


def test_the_event_file_has_the_metrics(tmp_path):
    log = TensorBoardLog(tmp_path)
    log.add(10, loss=2.5, bleu=1.5)
    log.add(20, loss=2.0)
    (path,) = tmp_path.glob("events.*")
    found = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "scalars"
    ]
    assert found == [(10, "loss", 2.5), (10, "bleu", 1.5), (20, "loss", 2.0)]
