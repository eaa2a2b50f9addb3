"""SentencePiece in the TensorFlow graph, by the ops of tensorflow_text.

Its oldest ops are called directly, so that servers built with an older tensorflow_text can load the
result. tensorflow_text's SentencepieceTokenizer, and keras_hub's around it, call the same ops, but
in a graph both lose their model at the next `keras.utils.set_random_seed` or `clear_session`
(tensorflow/text issue 570); this one does not.
"""

import hashlib

import sentencepiece
import tensorflow as tf
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer as _ops

PAD, START, END, UNK = 0, 1, 2, 3
REPLACEMENT = "\ufffd"  # SentencePiece decodes bytes that are no character to it


class SentencePieceModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model as a TensorFlow resource, saved with the `tf.Module` that owns it.

    A resource without a name belongs to one cached kernel and is lost when a new random seed clears
    that cache. The name is a hash, so that different models never share it.
    """

    def __init__(self, model: bytes):
        super().__init__()
        try:
            sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError(f"model is not a SentencePiece model ({len(model)} bytes)") from error
        self._model = model
        _ = self.resource_handle  # created now, not inside the first graph that uses it

    def _create_resource(self):
        name = hashlib.sha256(self._model).hexdigest()
        return _ops.sentencepiece_op(model=self._model, shared_name=name)

    def tokenize(self, strings, out_type=tf.int32, n_best: int | None = None) -> tf.RaggedTensor:
        """Strings (B) → ids or pieces (B, ragged); with `n_best` up to that many rows for each."""
        values, row_splits = _ops.sentencepiece_tokenize_op(
            self.resource_handle,
            strings,
            nbest_size=n_best or 1,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=out_type,
            return_nbest=n_best is not None,
        )
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    def detokenize(self, rows: tf.RaggedTensor) -> tf.Tensor:
        """Ids or pieces (B, ragged) → strings (B), without incomplete sequences of bytes."""
        strings = _ops.sentencepiece_detokenize_op(
            self.resource_handle,
            rows.values,
            rows.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )
        return tf.strings.regex_replace(strings, REPLACEMENT, "")

    def id_to_piece(self, ids) -> tf.Tensor:
        return _ops.sentencepiece_id_to_string_op(self.resource_handle, ids)


def decode_rows(ids, decode) -> tf.Tensor:
    """Ids (…, T), dense or ragged → strings (…), by `decode` of ids (B, T) and a mask (B, T).

    The mask is True before END.
    """
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_tensor(PAD)
    ids = tf.cast(ids, tf.int32)
    shape = tf.shape(ids)
    rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
    is_before_end = tf.cumsum(tf.cast(rows == END, tf.int32), axis=1) == 0
    return tf.reshape(decode(rows, is_before_end), shape[:-1])
