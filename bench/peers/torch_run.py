"""scaled_dot_product_attention of PyTorch as an engine of protocol.py, for attention alone.

One row of queries looks at every key, so its query heads that share keys are folded into rows of
one head, which is the kindest way to ask. Several rows are the newest of the keys, with a mask.
"""

import torch
from protocol import Clock, serve

MEMORY = 256 << 20  # bytes of keys and values, more than the processor's caches hold
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Torch:
    def __init__(self):
        self.case = None

    def make(self, heads, kv_heads, head_dim, keys, rows, cache, threads):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        kind = TYPES[cache]
        layer_bytes = 2 * kv_heads * keys * head_dim * kind.itemsize
        self.layers = [
            tuple(torch.randn(1, kv_heads, keys, head_dim).to(kind) for _ in range(2))
            for _ in range(max(1, MEMORY // layer_bytes))]
        if rows == 1:
            self.queries = torch.randn(1, kv_heads, heads // kv_heads, head_dim).to(kind)
            self.how = {}
        else:
            self.queries = torch.randn(1, heads, rows, head_dim).to(kind)
            seen = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
            self.how = {"attn_mask": seen, "enable_gqa": heads != kv_heads}

    @torch.inference_mode()
    def attention(self, rounds=1, **case):
        if case != self.case:
            self.make(**case)
            self.case = case
        clock = Clock()
        for _ in range(rounds):
            with clock:
                for keys, values in self.layers:
                    torch.nn.functional.scaled_dot_product_attention(
                        self.queries, keys, values, **self.how)
        return {**clock.times(), "calls": len(self.layers),
                "engine": f"torch {torch.__version__}"}


if __name__ == "__main__":
    serve(Torch())
