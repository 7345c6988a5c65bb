"""Which other engines there are, and what each needs."""

import importlib.util
import pathlib
import sys
from dataclasses import dataclass, field

from protocol import Engine, Refusal

HERE = pathlib.Path(__file__).resolve().parent


@dataclass(frozen=True, eq=False)
class Peer:
    """`needs` are modules, and their packages where those have another name; `variants` are the
    fields of a command by the name of the way of computing that they choose."""

    name: str
    script: str
    needs: dict
    variants: dict = field(default_factory=lambda: {"": {}})
    reads_file: bool = False

    def chosen_variants(self, names):
        """Those of `names`, where there is a choice."""
        return {name: fields for name, fields in self.variants.items() if name in ("", *names)}

    def start(self):
        return Engine(self.name, [sys.executable, str(HERE / self.script)])


def named(*peers):
    return {peer.name: peer for peer in peers}


# Of whole models. A peer says itself, when it loads, which formats it has not.
PEERS = named(
    Peer("llama.cpp", "llama_run.py", {"llama_cpp": "llama-cpp-python", "gguf": "gguf"},
         variants={"fused": {"fused": True}, "unfused": {"fused": False}}, reads_file=True),
    Peer("ctranslate2", "ctranslate2_run.py", {"ctranslate2": "ctranslate2"}),
    Peer("onnxruntime-genai", "onnxruntime_genai_run.py",
         {"onnxruntime_genai": "onnxruntime-genai", "onnx_ir": "onnx-ir", "torch": "torch",
          "transformers": "transformers"}),
    Peer("openvino-genai", "openvino_genai_run.py",
         {"openvino_genai": "openvino-genai", "gguf": "gguf"}, reads_file=True),
)

# Of attention alone.
ATTENTION_PEERS = named(
    Peer("torch", "torch_run.py", {"torch": "torch"}),
    Peer("llama.cpp", "ggml_attention_run.py", {"llama_cpp": "llama-cpp-python"},
         variants={"fused": {"path": "fused"}, "unfused": {"path": "unfused"}}),
)


def skipped(what, why):
    print(f"skipped: {what}, because {' '.join(str(why).split())}", flush=True)


def installed(peer):
    missing = [package for module, package in peer.needs.items()
               if not importlib.util.find_spec(module)]
    for package in missing:
        skipped(peer.name, f"{package} is not installed")
    return not missing


class Guest:
    """A peer that has loaded a model."""

    def __init__(self, peer, **load):
        self.peer, self.engine = peer, peer.start()
        try:
            self.loaded = self.engine.ask("load", **load)
        except Refusal:
            self.engine.close()
            raise

    def open_sessions(self, variants, **common):
        self.sessions, self.cache = [], None
        for name, fields in self.peer.chosen_variants(variants).items():
            self.cache = self.engine.ask("session", session=name, **fields, **common)["cache"]
            self.sessions.append(name)

    def result(self, contenders):
        return {"peer": self.peer.name, "weights": self.loaded["weights"], "cache": self.cache,
                "seconds": {of.name: of.seconds for of in contenders
                            if of.engine is self.engine and of.seconds}}
