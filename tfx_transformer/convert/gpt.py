"""GPT-2: checkpoints of Hugging Face, whose numbers are those of OpenAI.

`GPT` computes them with its default options. The number of heads is in no file: a wrong one goes
unseen.
"""

from dataclasses import dataclass

import numpy as np

from tfx_transformer.convert.bert import check_tied
from tfx_transformer.convert.layout import Layout


@dataclass(frozen=True)
class GPTLayout(Layout):
    """Kernels are (in, out), as ours; queries, keys and values lie side by side."""

    def adapt(self, weights, model):
        check_tied(weights, "lm_head.weight", f"{self.begin}wte.weight")
        return self

    def cut(self, name, array, model):
        if ".attn.c_attn." not in name:
            return {name: array}
        query, key, value = np.array_split(array, 3, axis=-1)
        return {f"{name}[query]": query, f"{name}[key]": key, f"{name}[value]": value}

    def is_turned(self, weight):
        return False


HUGGING_FACE = GPTLayout(
    family="Hugging Face",
    mark=r"(transformer\.|)h\.\d+\.attn\.c_attn\.",
    block="{begin}h.{i}.",
    head=(),
    names={
        "tokens": "{begin}wte.weight",
        "place": "{begin}wpe.weight",
        "self_norm": "{block}ln_1.{leaf}",
        "self_attention/query": "{block}attn.c_attn.{leaf}[query]",
        "key": "{block}attn.c_attn.{leaf}[key]",
        "value": "{block}attn.c_attn.{leaf}[value]",
        "self_attention/output": "{block}attn.c_proj.{leaf}",
        "mlp_norm": "{block}ln_2.{leaf}",
        "mlp/up": "{block}mlp.c_fc.{leaf}",
        "mlp/down": "{block}mlp.c_proj.{leaf}",
        "last_norm": "{begin}ln_f.{leaf}",
    },
    unused=r"lm_head\.weight$|.*\.attn\.(masked_)?bias$",  # the causal mask of old files
)
LAYOUTS = (HUGGING_FACE,)
