#!/usr/bin/env python3
"""Makes the models of embedding_test.cpp, with what transformers computes from them in float64.

    pip install torch transformers
    python3 tests/checkpoints/embeddings/make.py

Writes, beside itself, tiny random models without an output matrix: one that embeds texts, and two
with a head of scores. expected.json of each has texts of tokens, the hidden states behind each
token, their mean, and the scores of the last one.
"""

import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
TEXTS = [[3, 1, 4, 15, 9, 2, 6, 5, 3, 18, 0, 7], [5], [8, 9, 7, 9, 3, 2, 3], [14, 2]]

LLAMA = dict(vocab_size=19, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             pad_token_id=0)
MODELS = {
    "qwen3": (transformers.AutoModel, transformers.Qwen3Config(**LLAMA, head_dim=4)),
    "llama_scores": (transformers.AutoModelForSequenceClassification,
                     transformers.LlamaConfig(**LLAMA, num_labels=3)),
    "gpt2_reward": (transformers.AutoModelForSequenceClassification, transformers.GPT2Config(
        vocab_size=19, n_embd=12, n_inner=20, n_layer=2, n_head=3, n_positions=32, num_labels=1,
        pad_token_id=0)),
}


def expected(model, text):
    ids = torch.tensor([text])
    base = model.base_model if hasattr(model, "score") else model
    hidden = base(ids).last_hidden_state[0]
    result = {"tokens": text, "hidden": hidden.tolist(), "mean": hidden.mean(0).tolist()}
    if hasattr(model, "score"):
        result["scores"] = model.score(hidden[-1]).tolist()
    return result


def main():
    transformers.set_seed(7)
    for name, (kind, config) in MODELS.items():
        model = kind.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.4)
        model.save_pretrained(HERE / name)
        exact = kind.from_pretrained(HERE / name, dtype=torch.float64, attn_implementation="eager")
        with torch.no_grad():
            texts = [expected(exact.eval(), text) for text in TEXTS]
        (HERE / name / "expected.json").write_text(json.dumps(texts) + "\n")


main()
