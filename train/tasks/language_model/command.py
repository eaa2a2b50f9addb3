"""The command `generate`. It imports TensorFlow only when it runs."""

from typing import Annotated

import tyro

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import NO_OPTIONS, Model, Options, given
from tfx_transformer.train.tasks.lines import warn_truncated

MAX_LENGTH = 200  # tokens, if not given


Prompt = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[TEXT]")]


def generate(
    model: Model,
    prompt: Prompt = "",
    options: Options = NO_OPTIONS,
) -> None:
    """Continue a text; with a run folder it is printed token by token.

    Args:
        model: a run folder, or an export, whose decoder is fixed.
        prompt: the beginning of the text.
        options: of decoding. A temperature of 0 is greedy decoding. 200 tokens by default.
    """
    check_exists(model=model)
    start_tensorflow()
    import tensorflow as tf

    from tfx_transformer.export import is_export
    from tfx_transformer.train.run_folder import load_pipeline, load_run

    changes = given(options)
    length = changes.pop("max_length", MAX_LENGTH)
    if changes.get("temperature") == 0:
        changes = {"kind": "greedy"} | {k: v for k, v in changes.items() if k == "no_repeat_ngram"}
    if is_export(model):
        limited = load_pipeline(model, "language_model", **changes).signatures["limited"]
        outputs = limited(text=tf.constant([prompt]), max_length=tf.constant(length))
        parts = iter([outputs["text"][0].numpy().decode()])
        truncated = bool(outputs["truncated"][0])
    else:
        run = load_run(model, "language_model")
        stream = run.task.stream(run.model, **changes)
        parts, truncated = stream(prompt, length), stream.truncates(prompt)
    print(prompt, end="", flush=True)
    for part in parts:
        print(part, end="", flush=True)
    print()
    warn_truncated(truncated, "the model is trained for texts of --data.max-length tokens")


COMMAND = generate
