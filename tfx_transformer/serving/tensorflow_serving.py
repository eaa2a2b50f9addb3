"""The files of TensorFlow Serving: warm-up requests in an export, and a folder of models.

    models.config  batching_parameters.txt  compose.yaml
    translator/1/saved_model.pb  translator/1/assets.extra/tf_serving_warmup_requests  …
    translator/2/…                                   # the server changes to the newest version

`docker compose up` in this folder starts the server.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_transformer.files import write_file
from tfx_transformer.serving.options import ServingOptions

RELEASE = "2.19.1"  # of TensorFlow Serving; a test compares its ops with those of exports
TEXT = "Good morning."
TEXTS = {  # examples by the name of an input
    "text": TEXT,
    "story": "Mary went to the kitchen. John went to the garden.",
    "question": "Where is Mary?",
}
WARM_UP_ROWS = (1, 8)
MODELS = "models.config"
BATCHING = "batching_parameters.txt"
COMPOSE = "compose.yaml"
SERVICE = f"""services:
  tensorflow-serving:
    image: tensorflow/serving:{RELEASE}
    command:
      - --model_config_file=/models/{MODELS}
      - --model_config_file_poll_wait_seconds=60
      - --enable_batching
      - --batching_parameters_file=/models/{BATCHING}
    ports:
      - "127.0.0.1:8500:8500"  # gRPC
      - "127.0.0.1:8501:8501"  # REST
    volumes:
      - .:/models:ro
    restart: unless-stopped
"""


def write_warm_up(folder: Path, signatures: dict[str, Any], token_ids: list[int]) -> None:
    """Writes requests that TensorFlow Serving runs before a model is available.

    A request that fails would keep the model from being loaded. With batching, those of signatures
    with a scalar input fail, so they are left out.

    Args:
        folder: of the SavedModel.
        signatures: functions with an `input_signature`.
        token_ids: of a text, for signatures that take ids.
    """
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    path = folder / "assets.extra/tf_serving_warmup_requests"
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, function in signatures.items():
            specs = function.input_signature
            if not all(spec.shape.rank for spec in specs):
                continue
            examples = [example_tensors(spec, token_ids) for spec in specs]
            for tensors in zip(*examples, strict=True):
                log = PredictionLog()
                log.predict_log.request.model_spec.signature_name = name
                for spec, tensor in zip(specs, tensors, strict=True):
                    log.predict_log.request.inputs[spec.name].CopyFrom(tensor)
                writer.write(log.SerializeToString())


def example_tensors(spec: tf.TensorSpec, token_ids: list[int]) -> Iterator[Any]:
    """Values of an input as protos: short and long texts, or a small image; few and many rows."""
    if spec.name in TEXTS:
        examples: list[Any] = [TEXTS[spec.name], " ".join([TEXTS[spec.name]] * 8)]
    elif spec.dtype == tf.string:
        examples = [tf.io.encode_png(tf.zeros([64, 64, 3], tf.uint8)).numpy()]
    elif spec.shape.rank == 1:  # a seed for each text
        examples = [1, 2]
    else:
        examples = [token_ids]
    for rows in WARM_UP_ROWS:
        if spec.dtype.is_floating:  # one number stands for all pixels
            yield tf.make_tensor_proto(0.5, spec.dtype, [rows, *spec.shape[1:]])
        else:
            yield from (tf.make_tensor_proto([row] * rows, spec.dtype) for row in examples)


def check_models_folder(folder: Path, name: str) -> None:
    """Raises if a version of the model cannot be added to the folder."""
    if not re.fullmatch(r"\w[\w.-]*", name) or name in (MODELS, BATCHING, COMPOSE):
        raise ValueError(f"name must be letters, digits and . _ -, for addresses; got {name=}")
    if folder.exists() and not (folder / MODELS).is_file():
        raise ValueError(f"{folder} must be new or have a file {MODELS}, for models to be added")
    for path in (folder / name).glob("[!.]*"):
        if not is_version(path):
            raise ValueError(
                f"{path.parent} must have only folders of versions; it has {path.name}"
            )


def is_version(path: Path) -> bool:
    return path.is_dir() and path.name.isascii() and path.name.isdecimal()


def next_version(model: Path) -> Path:
    """The folder of the version after the newest one of a model."""
    newest = max((int(path.name) for path in model.glob("*") if is_version(path)), default=0)
    return model / str(newest + 1)


def write_settings(folder: Path) -> None:
    """Lists every model of the folder in models.config; other settings are written once.

    So a user's changes to the files are kept.
    """
    from google.protobuf import text_format
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    path, config = folder / MODELS, ModelServerConfig()
    if path.exists():
        text_format.Parse(path.read_text("utf-8"), config)
    listed = {model.name for model in config.model_config_list.config}
    models = sorted({version.parent.name for version in folder.glob("*/*") if is_version(version)})
    for name in models:
        if name not in listed:
            config.model_config_list.config.add(
                name=name, base_path=f"/models/{name}", model_platform="tensorflow"
            )
    if not listed.issuperset(models):
        write_file(path, text_format.MessageToString(config, as_utf8=True))
    for name, text in (BATCHING, batching_parameters()), (COMPOSE, SERVICE):
        if not (folder / name).exists():
            write_file(folder / name, text)


def batching_parameters() -> str:
    """The options of our own server as those of TensorFlow Serving."""
    options = ServingOptions()
    values = {
        "max_batch_size": options.max_batch_size,
        "batch_timeout_micros": round(1000 * options.batch_timeout),
        "max_enqueued_batches": options.max_waiting // options.max_batch_size,
    }
    lines = [f"{name} {{ value: {value} }}" for name, value in values.items()]
    lines += [f"allowed_batch_sizes: {size}" for size in options.allowed_batch_sizes]
    return "\n".join(lines) + "\n"
