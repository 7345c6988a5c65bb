"""llama.cpp's two kinds of attention alone, as an engine of protocol.py.

Through the C functions of the ggml libraries inside llama-cpp-python: `fused` is the flash
attention node, `unfused` two products with a softmax between, both on the layouts that llama.cpp
gives them: keys a token after the other with their heads side by side, values likewise or, when
unfused, transposed, and a mask. One graph has a node for every layer, so that threads start once a
round. Before a case is timed, a small one is compared with numpy.
"""

import ctypes
import importlib.metadata
import importlib.util
import math
import pathlib

import numpy as np
from protocol import Clock, serve

MEMORY = 256 << 20  # bytes of keys and values, more than the processor's caches hold
TYPES = {"f32": 0, "f16": 1, "bf16": 30}
F32, F16, PRECISE = 0, 1, 10

POINTER, INT, LONG, SIZE, FLOAT = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t, ctypes.c_float)


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", SIZE), ("mem_buffer", POINTER), ("no_alloc", ctypes.c_bool)]


# Arguments of the functions that are called; a pointer comes back unless VOID or STATUS says else.
FUNCTIONS = {
    "ggml_init": [InitParams],
    "ggml_new_tensor_3d": [POINTER, INT, LONG, LONG, LONG],
    "ggml_permute": [POINTER, POINTER, INT, INT, INT, INT],
    "ggml_cont": [POINTER, POINTER],
    "ggml_mul_mat": [POINTER, POINTER, POINTER],
    "ggml_soft_max_ext": [POINTER, POINTER, POINTER, FLOAT, FLOAT],
    "ggml_flash_attn_ext": [POINTER] * 5 + [FLOAT] * 3,
    "ggml_new_graph": [POINTER],
    "ggml_backend_cpu_init": [],
    "ggml_backend_cpu_buffer_type": [],
    "ggml_backend_alloc_ctx_tensors": [POINTER, POINTER],
    "ggml_gallocr_new": [POINTER],
}
VOID = {
    "ggml_free": [POINTER],
    "ggml_mul_mat_set_prec": [POINTER, INT],
    "ggml_flash_attn_ext_set_prec": [POINTER, INT],
    "ggml_build_forward_expand": [POINTER, POINTER],
    "ggml_set_output": [POINTER],
    "ggml_backend_cpu_set_n_threads": [POINTER, INT],
    "ggml_backend_tensor_set": [POINTER, POINTER, SIZE, SIZE],
    "ggml_backend_tensor_get": [POINTER, POINTER, SIZE, SIZE],
    "ggml_backend_buffer_free": [POINTER],
    "ggml_gallocr_free": [POINTER],
}
STATUS = {
    "ggml_gallocr_alloc_graph": (ctypes.c_bool, [POINTER, POINTER]),
    "ggml_backend_graph_compute": (INT, [POINTER, POINTER]),
}


class Ggml:
    """The functions by their names without `ggml_`."""

    def __init__(self):
        folder = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
        self.libraries = [ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
                          for name in ("libggml-base.so", "libggml-cpu.so")]
        for name, arguments in FUNCTIONS.items():
            self.declare(name, POINTER, arguments)
        for name, arguments in VOID.items():
            self.declare(name, None, arguments)
        for name, (result, arguments) in STATUS.items():
            self.declare(name, result, arguments)
        self.backend = self.backend_cpu_init()

    def declare(self, name, result, arguments):
        function = next(getattr(of, name) for of in self.libraries if hasattr(of, name))
        function.restype, function.argtypes = result, arguments
        setattr(self, name.removeprefix("ggml_"), function)

    def context(self):
        return self.init(InitParams(16 << 20, None, True))


def cells(values, kind):
    """The bytes of values in a format."""
    if kind == TYPES["bf16"]:
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(np.float16 if kind == F16 else np.float32)


class Attention:
    """Rows of queries that are the newest of the keys, in so many layers."""

    def __init__(self, ggml, layers, heads, kv_heads, head_dim, keys, rows, kind, threads, path):
        self.ggml, self.layers, self.path = ggml, layers, path
        self.heads, self.head_dim, self.rows = heads, head_dim, rows
        self.threads = threads
        self.inputs, self.nodes = ggml.context(), ggml.context()
        self.make_inputs(kv_heads, keys, kind)
        self.graph = ggml.new_graph(self.nodes)
        for keys_of_layer, values in self.held:
            node = self.fused if path == "fused" else self.unfused
            self.out = node(keys_of_layer, values)
            ggml.build_forward_expand(self.graph, self.out)
        ggml.set_output(self.out)
        self.allocator = ggml.gallocr_new(ggml.backend_cpu_buffer_type())
        if not ggml.gallocr_alloc_graph(self.allocator, self.graph):
            raise MemoryError("the nodes were not allocated")

    def make_inputs(self, kv_heads, keys, kind):
        """Tensors, innermost count first: number, head, token; values of `unfused` start with
        the token."""
        new, draw = self.ggml.new_tensor_3d, np.random.default_rng(1)
        values_shape = ((keys, self.head_dim, kv_heads) if self.path == "unfused"
                        else (self.head_dim, kv_heads, keys))
        self.query = new(self.inputs, F32, self.head_dim, self.heads, self.rows)
        self.mask = new(self.inputs, F16 if self.path == "fused" else F32, keys, self.rows, 1)
        self.held = [(new(self.inputs, kind, self.head_dim, kv_heads, keys),
                      new(self.inputs, kind, *values_shape)) for _ in range(self.layers)]
        self.buffer = self.ggml.backend_alloc_ctx_tensors(self.inputs, self.ggml.backend)
        if not self.buffer:
            raise MemoryError("keys and values were not allocated")
        self.drawn = [draw.standard_normal(shape, dtype=np.float32) for shape in (
            (self.rows, self.heads, self.head_dim), (keys, kv_heads, self.head_dim),
            values_shape[::-1])]
        seen = np.tril(np.ones((self.rows, keys), bool), keys - self.rows)
        mask = np.where(seen, np.float32(0), np.float32(-math.inf))
        self.set(self.query, self.drawn[0])
        self.set(self.mask, cells(mask, F16 if self.path == "fused" else F32))
        for keys_of_layer, values in self.held:
            self.set(keys_of_layer, cells(self.drawn[1], kind))
            self.set(values, cells(self.drawn[2], kind))

    def set(self, tensor, array):
        array = np.ascontiguousarray(array)
        self.ggml.backend_tensor_set(tensor, array.ctypes.data, 0, array.nbytes)

    def by_head(self, tensor):
        """Strides of element, token and head."""
        return self.ggml.permute(self.nodes, tensor, 0, 2, 1, 3)

    def fused(self, keys, values):
        node = self.ggml.flash_attn_ext(
            self.nodes, self.by_head(self.query), self.by_head(keys), self.by_head(values),
            self.mask, 1 / math.sqrt(self.head_dim), 0, 0)
        self.ggml.flash_attn_ext_set_prec(node, PRECISE)
        return node

    def unfused(self, keys, values):
        scores = self.ggml.mul_mat(self.nodes, self.by_head(keys), self.by_head(self.query))
        self.ggml.mul_mat_set_prec(scores, PRECISE)
        shares = self.ggml.soft_max_ext(
            self.nodes, scores, self.mask, 1 / math.sqrt(self.head_dim), 0)
        sums = self.ggml.mul_mat(self.nodes, values, shares)
        return self.ggml.cont(self.nodes, self.by_head(sums))

    def run(self):
        self.ggml.backend_cpu_set_n_threads(self.ggml.backend, self.threads)
        status = self.ggml.backend_graph_compute(self.ggml.backend, self.graph)
        if status != 0:
            raise RuntimeError(f"the graph gave {status}")

    def result(self):
        """[row][head][element] of the last layer."""
        out = np.empty((self.rows, self.heads, self.head_dim), np.float32)
        self.ggml.backend_tensor_get(self.out, out.ctypes.data, 0, out.nbytes)
        return out

    def expected(self):
        query, keys, values = (of.astype(np.float64) for of in self.drawn)
        if self.path == "unfused":
            values = values.transpose(2, 0, 1)
        group = self.heads // keys.shape[1]
        keys, values = keys.repeat(group, axis=1), values.repeat(group, axis=1)
        scores = np.einsum("rhd,khd->hrk", query, keys) / math.sqrt(self.head_dim)
        seen = np.tril(np.ones(scores.shape[1:], bool), len(keys) - self.rows)
        shares = np.exp(np.where(seen, scores, -math.inf))
        return np.einsum("hrk,khd->rhd", shares / shares.sum(-1, keepdims=True), values)

    def free(self):
        self.ggml.gallocr_free(self.allocator)
        self.ggml.backend_buffer_free(self.buffer)
        self.ggml.free(self.nodes)
        self.ggml.free(self.inputs)


class Participant:
    def __init__(self):
        self.ggml, self.cases = Ggml(), {}

    def make(self, kv_heads, head_dim, keys, cache, path, **case):
        kind = TYPES[cache]
        self.check(kind, path, case["threads"])
        layer_bytes = 2 * kv_heads * keys * head_dim * (4 if cache == "f32" else 2)
        return Attention(self.ggml, max(1, MEMORY // layer_bytes), kv_heads=kv_heads,
                         head_dim=head_dim, keys=keys, kind=kind, path=path, **case)

    def check(self, kind, path, threads):
        """Rows below and above the count from which llama.cpp computes in tiles."""
        for rows in (1, 100):
            case = Attention(self.ggml, 2, heads=4, kv_heads=2, head_dim=64, keys=256, rows=rows,
                             kind=kind, threads=threads, path=path)
            case.run()
            error = np.abs(case.result() - case.expected()).max()
            case.free()
            if not error < (1e-4 if kind == F32 else 2e-2):
                raise ArithmeticError(f"{path}, {rows} rows: off by {error}")

    def attention(self, path, rounds=1, **case):
        held = self.cases.get(path)
        if not held or held[0] != case:
            if held:
                held[1].free()
                del self.cases[path]
            self.cases[path] = (case, self.make(path=path, **case))
        attention = self.cases[path][1]
        clock = Clock()
        for _ in range(rounds):
            with clock:
                attention.run()
        version = importlib.metadata.version("llama-cpp-python")
        return {**clock.times(), "calls": attention.layers,
                "engine": f"ggml of llama-cpp-python {version}"}


if __name__ == "__main__":
    serve(Participant())
