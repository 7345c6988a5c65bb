"""Which models are compared: shapes of published ones, and the formats of their weights.

Only the shape matters to time; weights are random everywhere. All are Llama models whose embedding
is also their output, and whose weights but the norms are stored in one format.
"""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; `heads` query heads share `kv_heads` heads of keys and values."""

    name: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocabulary: int
    rope_theta: float

    def fields(self):
        return asdict(self)

    def matrices(self):
        """(name in a GGUF file, outputs, inputs) of every matrix, in the order of a file."""
        attended = self.heads * self.head_dim
        key_size = self.kv_heads * self.head_dim
        yield "token_embd.weight", self.vocabulary, self.hidden_size
        for layer in range(self.layers):
            block = f"blk.{layer}."
            yield block + "attn_q.weight", attended, self.hidden_size
            yield block + "attn_k.weight", key_size, self.hidden_size
            yield block + "attn_v.weight", key_size, self.hidden_size
            yield block + "attn_output.weight", self.hidden_size, attended
            yield block + "ffn_gate.weight", self.intermediate_size, self.hidden_size
            yield block + "ffn_up.weight", self.intermediate_size, self.hidden_size
            yield block + "ffn_down.weight", self.hidden_size, self.intermediate_size

    def norms(self):
        """(name, size) of every norm."""
        for layer in range(self.layers):
            yield f"blk.{layer}.attn_norm.weight", self.hidden_size
            yield f"blk.{layer}.ffn_norm.weight", self.hidden_size
        yield "output_norm.weight", self.hidden_size

    def lacks(self, weights):
        """Why the matrices cannot have this format, or nothing."""
        odd = {columns for _, _, columns in self.matrices() if columns % BLOCK}
        if odd and weights in BLOCKED:
            return f"rows of {min(odd)} are not a multiple of the block of {BLOCK}"
        return None

    def parameters(self):
        norms = sum(size for _, size in self.norms())
        return norms + sum(rows * columns for _, rows, columns in self.matrices())


SHAPES = {
    shape.name: shape
    for shape in (
        # To try the harness in seconds; its figures say nothing.
        Shape("tiny", 2, 256, 4, 2, 64, 512, 1024, 10000.0),
        # stories260K: in the caches of a processor, so that what a step costs besides shows
        Shape("260K", 5, 64, 8, 4, 8, 172, 512, 10000.0),
        # SmolLM2-135M
        Shape("135M", 30, 576, 9, 3, 64, 1536, 49152, 100000.0),
        # Llama 3.2 1B, with plain rotary positions
        Shape("1B", 16, 2048, 32, 8, 64, 8192, 128256, 500000.0),
    )
}

WEIGHTS = ("f32", "bf16", "q8_0", "q4_0")
BLOCKED = ("q8_0", "q4_0")
BLOCK = 32  # weights that share a scale
CACHES = ("f32", "bf16", "f16")
