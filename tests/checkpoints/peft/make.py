#!/usr/bin/env python3
"""Makes the adapters of adapter_test.cpp, with the logits that PEFT computes from them in float64.

    pip install torch transformers peft
    python3 tests/checkpoints/peft/make.py

Writes, beside itself, a tiny random model of each family and adapters of it. In an adapter's folder
expected.json has tokens, and the logits that follow each of them.
"""

import json
import pathlib
import shutil

import peft
import torch
import transformers

HERE = pathlib.Path(__file__).parent
TOKENS = [3, 1, 4, 15, 9, 2, 6, 5, 3, 18, 0, 7]

MODELS = {
    "llama": transformers.LlamaConfig(
        vocab_size=19, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64),
    "gpt2": transformers.GPT2Config(
        vocab_size=19, n_embd=12, n_inner=20, n_layer=2, n_head=3, n_positions=32),
}
LLAMA_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

ADAPTERS = {
    "llama/default": {"r": 4, "lora_alpha": 6, "target_modules": LLAMA_MODULES},
    "llama/patterns": {
        "r": 4, "lora_alpha": 6, "target_modules": LLAMA_MODULES,
        "rank_pattern": {"k_proj": 3, "^model.layers.0.mlp.up_proj": 17},
        "alpha_pattern": {"layers.1.mlp.down_proj": 11}},
    "llama/rank_stabilised": {
        "r": 5, "lora_alpha": 3, "use_rslora": True, "target_modules": ["q_proj", "v_proj"],
        "layers_to_transform": [1]},
    "gpt2/default": {
        "r": 3, "lora_alpha": 4, "target_modules": ["c_attn", "c_proj", "c_fc"],
        "fan_in_fan_out": True},
}


def randomise(parameters):
    for parameter in parameters:
        with torch.no_grad():
            parameter.normal_(0, 0.4)


def make_model(name, config):
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model.parameters())
    model.save_pretrained(HERE / name / "model")


def load_model(name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name / "model", dtype=torch.float64, attn_implementation="eager")


def make_adapter(name, options):
    family = name.split("/")[0]
    folder = HERE / name
    config = peft.LoraConfig(task_type="CAUSAL_LM", **options)
    model = peft.get_peft_model(load_model(family), config).float()
    randomise(value for key, value in model.named_parameters() if "lora_" in key)
    model.peft_config["default"].base_model_name_or_path = family
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # an empty model card
    path = folder / "adapter_config.json"
    written = json.loads(path.read_text())
    written["target_modules"].sort()  # a set, in any order
    path.write_text(json.dumps(written, indent=2) + "\n")


def expect(name):
    folder = HERE / name
    adapted = peft.PeftModel.from_pretrained(load_model(name.split("/")[0]), folder).double()
    with torch.no_grad():
        logits = adapted(torch.tensor([TOKENS])).logits[0]
    assert logits.dtype == torch.float64
    expected = {"tokens": TOKENS, "logits": logits.tolist()}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def main():
    torch.manual_seed(1)
    for name, config in MODELS.items():
        shutil.rmtree(HERE / name, ignore_errors=True)
        make_model(name, config)
    for name, options in ADAPTERS.items():
        make_adapter(name, options)
        expect(name)


if __name__ == "__main__":
    main()
