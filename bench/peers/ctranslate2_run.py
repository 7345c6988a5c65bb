"""CTranslate2 as an engine of protocol.py.

It has f32 and int8 with one scale a row (and bf16 where it says so), holds keys and values as it
computes, and takes a prompt at once. A context is cached as its `static_prompt`, so that rounds of
decode do not compute it again.
"""

import pathlib
import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerDecoderModelSpec, common_spec
from prompting import Generating, prompt_tokens
from protocol import serve
from shapes import Shape

TYPES = {"f32": "float32", "bf16": "bfloat16", "q8_0": "int8"}


def random_spec(shape):
    """A Llama model of normal weights, embedding and output being one matrix."""
    draw = np.random.Generator(np.random.SFC64(1))

    def matrix(rows, columns):
        return draw.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)

    spec = TransformerDecoderModelSpec.from_config(
        shape.layers, shape.heads, activation=common_spec.Activation.SWISH, ffn_glu=True,
        rms_norm=True, rotary_dim=0, rotary_interleave=False, rotary_base=shape.rope_theta,
        num_heads_kv=shape.kv_heads, head_dim=shape.head_dim)
    attended, key_size = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    norm = np.ones(shape.hidden_size, np.float32)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = matrix(shape.vocabulary, shape.hidden_size)
    decoder.projection.weight = decoder.embeddings.weight
    decoder.layer_norm.gamma = norm
    for layer in decoder.layer:
        attention, feed_forward = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = feed_forward.layer_norm.gamma = norm
        attention.linear[0].weight = matrix(attended + 2 * key_size, shape.hidden_size)
        attention.linear[1].weight = matrix(shape.hidden_size, attended)
        feed_forward.linear_0.weight = matrix(shape.intermediate_size, shape.hidden_size)
        feed_forward.linear_0_noact.weight = matrix(shape.intermediate_size, shape.hidden_size)
        feed_forward.linear_1.weight = matrix(shape.hidden_size, shape.intermediate_size)
    spec.config.layer_norm_epsilon = 1e-5
    return spec


class CTranslate2(Generating):
    def __init__(self):
        self.generator = None

    def load(self, shape, weights, positions, model):
        kind = TYPES.get(weights)
        if kind not in ctranslate2.get_supported_compute_types("cpu"):
            raise NotImplementedError(f"it has nothing near {weights} on this processor")
        shape = Shape(**shape)
        self.kind, self.positions = kind, positions
        self.names = ["<unk>", "<s>", "</s>", *(f"t{at}" for at in range(3, shape.vocabulary))]
        self.tokens = prompt_tokens(positions, shape.vocabulary)
        spec = random_spec(shape)
        spec.register_vocabulary(self.names)
        spec.validate()
        spec.optimize(quantization=kind)
        self.folder = tempfile.TemporaryDirectory(dir=pathlib.Path(model).parent)
        spec.save(self.folder.name)
        return {"engine": f"CTranslate2 {ctranslate2.__version__}", "weights": kind}

    def session(self, session, cache, threads, capacity, chunk):
        self.generator = None  # before the next, for the sake of memory
        self.generator = ctranslate2.Generator(
            self.folder.name, device="cpu", compute_type=self.kind, intra_threads=threads)
        return {"cache": "bf16" if self.kind == "bfloat16" else "f32"}

    def generate(self, session, context, count, fresh, on_token):
        def seen(_):
            on_token()
            return False

        prompt = [self.names[token] for token in self.tokens[:context]]
        cached = {} if fresh or context < 2 else {"static_prompt": prompt[:-1]}
        self.generator.generate_batch(
            [prompt[-1:] if cached else prompt], max_length=count, min_length=count,
            include_prompt_in_result=False, callback=seen, **cached)


if __name__ == "__main__":
    engine = CTranslate2()
    serve(engine)
    engine.generator = None  # its threads must end before the interpreter does
