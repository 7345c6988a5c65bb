"""ONNX Runtime GenAI as an engine of protocol.py.

Its own builder makes the model from a folder of random weights: f32, or blocks of 32 with a scale
in eight or four bits, and activations in eight bits. Keys and values are f32. Logits are of the
last token of a prompt alone, and none are sampled from.
"""

import json
import logging
import pathlib
import tempfile

import numpy as np
import onnxruntime_genai as genai
import torch
import transformers
from onnxruntime_genai.models import builder
from prompting import Stepping, prompt_tokens
from protocol import serve
from shapes import Shape
from tokenizers import Tokenizer, models

TYPES = {"f32": "fp32", "q8_0": "int8", "q4_0": "int4"}


def save_random(shape, positions, folder):
    """A folder as transformers writes it; the builder needs a vocabulary of words."""
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden_size, num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate_size, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        max_position_embeddings=positions, tie_word_embeddings=True, bos_token_id=0,
        eos_token_id=1, pad_token_id=1)).save_pretrained(folder)
    words = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="b").save_pretrained(folder)


def build(source, folder, kind):
    logging.getLogger("onnxruntime").setLevel(logging.WARNING)
    cache = str(pathlib.Path(folder) / "cache")
    options = builder.parse_extra_options(
        source, source, folder, kind, "cpu", cache, ["prune_lm_head=true", "accuracy_level=4"])
    builder.create_model(source, source, folder, kind, "cpu", cache, **options)


class Session:
    """One sequence."""

    def __init__(self, folder, threads, capacity, chunk, vocabulary):
        config = genai.Config(folder)
        config.clear_providers()
        config.overlay(json.dumps(
            {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
        self.model = genai.Model(config)
        params = genai.GeneratorParams(self.model)
        params.set_search_options(max_length=capacity, batch_size=1, do_sample=False)
        self.generator = genai.Generator(self.model, params)
        self.tokens = np.array(prompt_tokens(capacity, vocabulary), np.int32)
        self.step = chunk

    @property
    def end(self):
        return self.generator.token_count()

    def rewind(self, end):
        self.generator.rewind_to(end)

    def feed(self, count):
        self.generator.append_tokens(self.tokens[self.end:self.end + count])

    def check(self):
        largest = np.abs(self.generator.get_logits()).max()
        if not 0 < largest < np.inf:
            raise RuntimeError(f"logits of size {largest}")


class OnnxRuntime(Stepping):
    def load(self, shape, weights, positions, model):
        if weights not in TYPES:
            raise NotImplementedError(f"it has nothing near {weights} on processors")
        self.shape = Shape(**shape)
        if self.shape.head_dim % 16:
            raise NotImplementedError("its attention needs head sizes that are a multiple of 16")
        self.folder = tempfile.TemporaryDirectory(dir=pathlib.Path(model).parent)
        with tempfile.TemporaryDirectory(dir=pathlib.Path(model).parent) as source:
            save_random(self.shape, positions, source)
            build(source, self.folder.name, TYPES[weights])
        return {"engine": f"ONNX Runtime GenAI {genai.__version__}", "weights": TYPES[weights]}

    def session(self, session, cache, threads, capacity, chunk):
        self.sessions = {}  # the last one goes first, for the sake of memory
        self.sessions[session] = Session(
            self.folder.name, threads, capacity, chunk, self.shape.vocabulary)
        return {"cache": "f32"}


if __name__ == "__main__":
    serve(OnnxRuntime())
