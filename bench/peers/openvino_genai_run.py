"""OpenVINO GenAI as an engine of protocol.py, through its pipeline of paged attention.

It reads the GGUF file of llama.cpp when that is q8_0 or q4_0, in that format; for f32 and
bf16 it gets an f16 file, whose weights it converts when it loads: to bf16 only where the processor
multiplies such. Prompts are computed `chunk` tokens at a time, and pages of a context stay cached
from round to round.
"""

import pathlib
import tempfile

import numpy as np
import openvino
import openvino_genai as genai
from make_model import make_model
from prompting import Generating, prompt_tokens
from protocol import serve
from shapes import Shape

TYPES = {"f32": "f32 of f16", "bf16": "bf16 of f16", "q8_0": "q8_0", "q4_0": "q4_0"}
GIGABYTE = 1 << 30


def multiplies_bf16():
    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class Streamer(genai.StreamerBase):
    """Reports every token."""

    def __init__(self, on_token):
        super().__init__()
        self.on_token = on_token

    def write(self, tokens):
        for _ in [tokens] if isinstance(tokens, int) else tokens:
            self.on_token()
        return genai.StreamingStatus.RUNNING

    def end(self):
        pass


class OpenVino(Generating):
    def load(self, shape, weights, positions, model):
        if weights == "bf16" and not multiplies_bf16():
            raise NotImplementedError("it has no bf16 on this processor")
        self.shape, self.weights, self.file = Shape(**shape), weights, model
        self.folder = tempfile.TemporaryDirectory(dir=pathlib.Path(model).parent)
        if weights in ("f32", "bf16"):
            self.file = str(pathlib.Path(self.folder.name) / "model.gguf")
            make_model(self.shape, "f16", self.file)
        self.prompts = 0
        return {"engine": f"OpenVINO GenAI {genai.__version__}", "weights": TYPES[weights]}

    def session(self, session, cache, threads, capacity, chunk):
        precision = self.precision(cache)
        if precision == "bf16":
            cache = "bf16"  # the only one that goes with it
        elif cache == "bf16":
            raise NotImplementedError("it holds bf16 only where it computes in it")
        self.pipeline = None  # before the next, for the sake of memory
        self.tokens = np.array(prompt_tokens(capacity, self.shape.vocabulary), np.int64)
        scheduler = genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = chunk
        scheduler.max_num_seqs = 1
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = self.cache_gigabytes(capacity)
        words = genai.Tokenizer(self.folder.name)  # none: prompts are tokens
        self.pipeline = genai.LLMPipeline(
            self.file, words, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads,
            KV_CACHE_PRECISION=cache, INFERENCE_PRECISION_HINT=precision)
        return {"cache": cache}

    def precision(self, cache):
        """What it would choose itself, unless weights or cache are to be f32."""
        narrow = self.weights == "bf16" or (self.weights != "f32" and cache != "f32")
        return "bf16" if narrow and multiplies_bf16() else "f32"

    def cache_gigabytes(self, capacity):
        """Room for four sequences, so that the last ones stay cached."""
        elements = 2 * self.shape.layers * self.shape.kv_heads * self.shape.head_dim
        return -(-4 * 4 * elements * capacity // GIGABYTE)

    def generate(self, session, context, count, fresh, on_token):
        tokens = self.tokens[:context].copy()
        if fresh:  # another first token, so that no page fits
            self.prompts += 1
            tokens[0] = self.prompts % self.shape.vocabulary
        config = genai.GenerationConfig()
        config.max_new_tokens = count
        config.ignore_eos = True
        config.eos_token_id = 0
        config.stop_token_ids = {0}
        config.do_sample = False
        config.apply_chat_template = False
        inputs = (openvino.Tensor(tokens[None]), openvino.Tensor(np.ones((1, context), np.int64)))
        self.pipeline.generate(genai.TokenizedInputs(*inputs), config, Streamer(on_token))


if __name__ == "__main__":
    serve(OpenVino())
