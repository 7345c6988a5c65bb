"""llama.cpp as an engine of protocol.py, through the C functions that llama-cpp-python exposes.

Weights are read into memory and not mapped, so that no page of them is ever taken back. Keys and
values have the format that is asked for; `fused` chooses between flash attention and the separate
products of scores and values, of which either may be the faster.
"""

import ctypes
import math
import sys

import llama_cpp
from prompting import Stepping, prompt_tokens
from protocol import serve

GGML_TYPES = {"f32": 0, "f16": 1, "bf16": 30}


@llama_cpp.llama_log_callback
def log(level, text, _):
    """Warnings and errors only, and not on the output that belongs to the protocol."""
    if level in (3, 4):
        sys.stderr.write("llama.cpp: " + text.decode(errors="replace"))


def assign(params, **fields):
    """Sets fields of a structure; refuses unknown names, which Python would set without effect."""
    known = {name for name, *_ in params._fields_}
    for name, value in fields.items():
        if name not in known:
            raise RuntimeError(f"this llama.cpp has no {type(params).__name__}.{name}")
        setattr(params, name, value)


def unmapped():
    """The field that disables mapping the file, by its newer or its older name."""
    if hasattr(llama_cpp, "LLAMA_LOAD_MODE_NONE"):
        return {"load_mode": llama_cpp.LLAMA_LOAD_MODE_NONE}
    return {"use_mmap": False}


class Session:
    """One sequence; the token of a position depends on the position alone."""

    def __init__(self, model, params, vocabulary):
        self.context = llama_cpp.llama_init_from_model(model, params)
        if not self.context:
            raise RuntimeError("no context was made")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.step = params.n_batch
        self.end = 0
        self.tokens = (llama_cpp.llama_token * params.n_ctx)(
            *prompt_tokens(params.n_ctx, vocabulary))

    def free(self):
        llama_cpp.llama_free(self.context)

    def rewind(self, end):
        if not llama_cpp.llama_memory_seq_rm(self.memory, 0, end, -1):
            raise RuntimeError(f"cannot rewind to {end}")
        self.end = end

    def feed(self, count):
        """The next tokens of the sequence; logits of the last of them."""
        first = ctypes.pointer(llama_cpp.llama_token.from_buffer(
            self.tokens, self.end * ctypes.sizeof(llama_cpp.llama_token)))
        code = llama_cpp.llama_decode(
            self.context, llama_cpp.llama_batch_get_one(first, count))
        if code != 0:
            raise RuntimeError(f"llama_decode gave {code}")
        llama_cpp.llama_synchronize(self.context)
        self.end += count

    def check(self):
        """Refuses NaN: wrong results are not timed."""
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        largest = max(abs(logits[token]) for token in range(256))
        if not 0 < largest < math.inf:
            raise RuntimeError(f"logits of size {largest}")


class Llama(Stepping):
    def __init__(self):
        llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = None
        self.sessions = {}

    def load(self, shape, weights, positions, model):
        params = llama_cpp.llama_model_default_params()
        assign(params, n_gpu_layers=0, **unmapped())
        self.model = llama_cpp.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            raise RuntimeError(f"{model} was not loaded")
        self.shape = shape
        features = llama_cpp.llama_print_system_info().decode().strip()
        return {"engine": f"llama.cpp of llama-cpp-python {llama_cpp.__version__} ({features})",
                "weights": weights}

    def session(self, session, cache, threads, capacity, chunk, fused=True):
        if session in self.sessions:
            self.sessions.pop(session).free()
        params = llama_cpp.llama_context_default_params()
        assign(params, n_ctx=capacity, n_batch=min(2048, capacity), n_ubatch=chunk, n_seq_max=1,
               n_threads=threads, n_threads_batch=threads, flash_attn_type=1 if fused else 0,
               type_k=GGML_TYPES[cache], type_v=GGML_TYPES[cache], no_perf=True)
        self.sessions[session] = Session(self.model, params, self.shape["vocabulary"])
        return {"cache": cache}


if __name__ == "__main__":
    serve(Llama())
