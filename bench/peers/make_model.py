"""A model of a given shape with random weights, as a GGUF file.

    python make_model.py 135M q8_0 model.gguf

Weights are normal with deviation 0.02, norms are one. Every tensor has a generator of its own,
seeded by its place, so a file is the same whenever it is made. One tensor at a time is in memory.
"""

import sys

import gguf
import numpy as np
from shapes import SHAPES, WEIGHTS

POSITIONS = 131072  # the context length in the file: more than any measure needs
ROWS = 8192  # drawn and quantised at a time


def format_of(weights):
    return gguf.GGMLQuantizationType[weights.upper()]


def random_matrix(seed, rows, columns, weights):
    """Bytes of a matrix in its format."""
    draw = np.random.Generator(np.random.SFC64(seed))
    parts = []
    for first in range(0, rows, ROWS):
        part = draw.standard_normal((min(ROWS, rows - first), columns), dtype=np.float32)
        part *= np.float32(0.02)
        parts.append(gguf.quants.quantize(part, format_of(weights)).view(np.uint8))
    return np.concatenate(parts)


def describe(writer, shape, weights):
    """All that a file says besides tensors. There is no vocabulary but a count of tokens."""
    writer.add_name(f"random {shape.name}")
    writer.add_file_type(gguf.LlamaFileType[
        "ALL_F32" if weights == "f32" else "MOSTLY_" + weights.upper()])
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("none")


def make_model(shape, weights, path):
    writer = gguf.GGUFWriter(path, "llama")
    describe(writer, shape, weights)
    for name, rows, columns in shape.matrices():
        row_bytes = gguf.quants.quant_shape_to_byte_shape((columns,), format_of(weights))[0]
        writer.add_tensor_info(name, (rows, row_bytes), np.dtype(np.uint8), rows * row_bytes,
                               raw_dtype=format_of(weights))
    for name, size in shape.norms():
        writer.add_tensor_info(name, (size,), np.dtype(np.float32), 4 * size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for seed, (_, rows, columns) in enumerate(shape.matrices()):
        writer.write_tensor_data(random_matrix(seed, rows, columns, weights))
    for _, size in shape.norms():
        writer.write_tensor_data(np.ones(size, np.float32))
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in WEIGHTS:
        sys.exit(f"usage: make_model.py {'|'.join(SHAPES)} {'|'.join(WEIGHTS)} FILE")
    make_model(SHAPES[sys.argv[1]], sys.argv[2], sys.argv[3])
