"""decant and other engines on the same model shapes, in turns; a table of ratios and a plot.

    python compare.py --shapes 135M --weights q8_0 f32 --threads 1

README.md says what is compared and how to build what is needed.
"""

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import sys
import tempfile

from contest import Contender, race
from machine import OtherLoad, description
from peers import ATTENTION_PEERS, PEERS, Guest, installed, skipped
from protocol import Engine, Refusal
from report import attention_table, plot, table
from shapes import CACHES, SHAPES, WEIGHTS

os.environ.pop("OPENBLAS_CORETYPE", None)  # would choose another machine's kernels
HERE = pathlib.Path(__file__).resolve().parent
MEASURES = ["prefill:512", "prefill:2048", "decode:0", "decode:2048", "decode:8192"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--decant", default=str(HERE.parents[1] / "build/release/bench/bench_peers_decant"),
        help="our program, built (%(default)s)")
    add("--shapes", nargs="+", default=["135M", "1B"], choices=SHAPES)
    add("--weights", "--types", nargs="+", default=list(WEIGHTS), choices=WEIGHTS)
    add("--threads", nargs="+", type=int, default=[1, 2])
    add("--measures", nargs="*", default=MEASURES, help="KIND:TOKENS (%(default)s)")
    add("--caches", nargs="+", default=["f16", "bf16"], choices=CACHES, help="of decant")
    add("--peers", nargs="*", default=["llama.cpp"], choices=PEERS,
        help="all loaded at once, so memory limits them (%(default)s)")
    add("--peer-cache", default="f16", choices=CACHES,
        help="of the peers that can choose (%(default)s)")
    add("--attention", nargs="*", default=[], metavar="KEYSxROWS",
        help="attention alone, 32 heads on 8 of size 128; ROWS defaults to 1")
    add("--attention-peers", nargs="*", default=list(ATTENTION_PEERS), choices=ATTENTION_PEERS)
    add("--flash", nargs="+", default=["on", "off"], choices=["on", "off"],
        help="llama.cpp's fused attention; the faster of both is shown")
    add("--rounds", type=int, default=5)
    add("--budget", type=float, default=120,
        help="seconds of a measure, after which two rounds are enough (120)")
    add("--decode-tokens", type=int, default=32, help="of one round (32)")
    add("--chunk", type=int, default=512, help="tokens of a prompt computed at once (512)")
    add("--work", help="where models lie while they are used (a new temporary folder)")
    add("--keep", dest="leave", action="store_true",
        help="leave models in --work, and reuse those in it")
    add("--out", default=str(HERE.parents[1] / "build/peers"),
        help="folder of results.json, table.md and ratios.png (%(default)s)")
    options = parser.parse_args()
    options.variants = [{"on": "fused", "off": "unfused"}[flash] for flash in options.flash]
    for measure in options.measures:
        kind, _, count = measure.partition(":")
        if kind not in ("prefill", "decode") or not count.isdigit():
            parser.error(f"--measures: {measure} is neither prefill:TOKENS nor decode:TOKENS")
    return options


def model_file(options, shape, weights):
    """Makes the file unless it is there; half-written ones have another name."""
    from make_model import make_model
    path = pathlib.Path(options.work) / f"random-{shape.name}-{weights}.gguf"
    if not path.exists():
        print(f"making {path.name}", flush=True)
        half = path.with_suffix(".part")
        try:
            make_model(shape, weights, half)
            half.rename(path)
        finally:
            half.unlink(missing_ok=True)
    return path


def command_of(measure, options):
    """The command of a measure, what is changed to warm up, and tokens of a round."""
    kind, count = measure.split(":")
    count = int(count)
    if kind == "prefill":
        return {"op": "prefill", "tokens": count}, {"tokens": min(count, 128)}, count
    tokens = options.decode_tokens
    return {"op": "decode", "context": count, "tokens": tokens}, {"tokens": 4}, tokens


class Model:
    """One shape and format, loaded by decant and by the peers that have it."""

    def __init__(self, options, shape, weights, peers):
        self.options, self.shape, self.weights = options, shape, weights
        counts = [int(measure.split(":")[1]) for measure in options.measures]
        self.capacity = max(counts) + options.decode_tokens + 32
        self.file = (model_file(options, shape, weights)
                     if any(peer.reads_file for peer in peers) else None)
        load = {"shape": shape.fields(), "weights": weights, "positions": self.capacity,
                "model": str(self.file or pathlib.Path(options.work) / "none")}
        self.decant = Engine("decant", [options.decant])
        self.loaded = self.decant.ask("load", **load)
        self.guests = []
        for peer in peers:
            with self.skipping(peer):
                self.guests.append(Guest(peer, **load))

    @contextlib.contextmanager
    def skipping(self, peer):
        try:
            yield
        except Refusal as refusal:
            skipped(f"{peer.name}, {self.shape.name} in {self.weights}", refusal)

    def engines(self):
        return [self.decant, *(guest.engine for guest in self.guests)]

    def names(self):
        return [self.loaded["engine"], *(guest.loaded["engine"] for guest in self.guests)]

    def close(self):
        for engine in self.engines():
            engine.close()
        if self.file and not self.options.leave:
            self.file.unlink()

    def open_sessions(self, threads):
        """Sessions of every engine, and what a token costs each of ours."""
        common = {"threads": threads, "capacity": self.capacity, "chunk": self.options.chunk}
        self.bytes_per_token = {
            cache: self.decant.ask("session", session=cache, cache=cache, **common)[
                "bytes_per_token"]
            for cache in self.options.caches}
        for guest in self.guests:
            with self.skipping(guest.peer):
                guest.open_sessions(self.options.variants, cache=self.options.peer_cache, **common)

    def measure(self, threads, measure):
        """Rows of the table, one for each of our caches."""
        command, warm_up, tokens = command_of(measure, self.options)
        sessions = [(self.decant, cache) for cache in self.options.caches]
        sessions += [(guest.engine, name) for guest in self.guests for name in guest.sessions]
        contenders = [Contender(name, engine, {**command, "session": name}, warm_up)
                      for engine, name in sessions]
        reads = [Contender(f"{streams} streams", self.decant,
                           {"op": "read", "threads": threads, "streams": streams})
                 for streams in (1, 4, 8)] if command["op"] == "decode" else []
        load = OtherLoad([engine.process.pid for engine in self.engines()])
        race(contenders + reads, threads, self.options.rounds, self.options.budget)
        report_failures(contenders + reads, self.decant, measure)
        peers = [guest.result(contenders) for guest in self.guests]
        common = {"shape": self.shape.name, "weights": self.weights, "threads": threads,
                  "measure": measure, "tokens": tokens, "other_load": load.value(),
                  "peers": [peer for peer in peers if peer["seconds"]],
                  "read_rate": max((of.answer["bytes"] / of.median() for of in reads),
                                   default=None)}
        return [{**common, "cache": of.name, "decant": of.seconds,
                 "token_bytes": self.token_bytes(command, of.name)}
                for of in contenders if of.engine is self.decant]

    def token_bytes(self, command, cache):
        """Weights, and keys and values in the middle of a round, that a decoded token reads."""
        if command["op"] != "decode":
            return None
        held = command["context"] + (command["tokens"] + 1) / 2
        return self.loaded["weight_bytes"] + held * self.bytes_per_token[cache]


def report_failures(contenders, decant, what):
    """Of peers; our own end the run."""
    for of in contenders:
        if of.failure and of.engine is decant:
            raise RuntimeError(f"decant: {what}: {of.failure}")
        if of.failure:
            skipped(" ".join(filter(None, [of.engine.name, of.name, what])), of.failure)


def compare_models(options, results):
    peers = [PEERS[name] for name in options.peers if installed(PEERS[name])]
    for shape in map(SHAPES.get, options.shapes):
        for weights in options.weights:
            if shape.lacks(weights):
                skipped(f"{shape.name} in {weights}", shape.lacks(weights))
                continue
            model = Model(options, shape, weights, peers)
            try:
                results["engines"] = list(dict.fromkeys(results["engines"] + model.names()))
                for threads in options.threads:
                    model.open_sessions(threads)
                    for measure in options.measures:
                        rows = model.measure(threads, measure)
                        print(table(rows, header=not results["rows"]), flush=True)
                        results["rows"] += rows
                        save(options, results)
            finally:
                model.close()


def compare_attention(options, results):
    if not options.attention:
        return
    guests = {peer: peer.start() for peer in map(ATTENTION_PEERS.get, options.attention_peers)
              if installed(peer)}
    decant = Engine("decant", [options.decant])
    try:
        for case, threads, cache in itertools.product(
                options.attention, options.threads, options.caches):
            keys, _, rows = case.partition("x")
            command = {"op": "attention", "heads": 32, "kv_heads": 8, "head_dim": 128,
                       "keys": int(keys), "rows": int(rows or 1), "cache": cache,
                       "threads": threads}
            results["attention"].append(measure_attention(options, decant, guests, command))
            save(options, results)
    finally:
        for engine in (decant, *guests.values()):
            engine.close()
    print("\n" + attention_table(results["attention"]), flush=True)


def measure_attention(options, decant, guests, command):
    """A row of the table: seconds of one call."""
    contenders = [Contender("", decant, command)]
    contenders += [Contender(name, engine, {**command, **fields})
                   for peer, engine in guests.items()
                   for name, fields in peer.chosen_variants(options.variants).items()]
    load = OtherLoad([engine.process.pid for engine in (decant, *guests.values())])
    race(contenders, command["threads"], options.rounds, options.budget)
    report_failures(contenders, decant, f"{command['keys']} keys in {command['cache']}")
    peers = [{"peer": peer.name,
              "seconds": {of.name: call_seconds(of) for of in contenders
                          if of.engine is engine and of.seconds}}
             for peer, engine in guests.items()]
    return {**command, "other_load": load.value(), "decant": call_seconds(contenders[0]),
            "peers": peers}


def call_seconds(contender):
    return [lap / contender.answer["calls"] for lap in contender.seconds]


def save(options, results):
    (pathlib.Path(options.out) / "results.json").write_text(json.dumps(results, indent=1))


def main():
    options = arguments()
    if not os.access(options.decant, os.X_OK):
        sys.exit(f"compare.py: {options.decant} is not there; build bench_peers_decant")
    with tempfile.TemporaryDirectory(prefix="peers-") as temporary:
        options.work = options.work or temporary
        for folder in (options.work, options.out):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        results = {"machine": description(), "engines": [], "rows": [], "attention": []}
        if options.measures:
            compare_models(options, results)
        compare_attention(options, results)
        out = pathlib.Path(options.out)
        (out / "table.md").write_text(
            table(results["rows"]) + "\n\n" + attention_table(results["attention"]) + "\n\n```\n" +
            json.dumps([results["machine"], results["engines"]], indent=1) + "\n```\n")
        if results["rows"] and importlib.util.find_spec("matplotlib"):
            plot(results, out / "ratios.png")
        elif results["rows"]:
            skipped("the plot", "matplotlib is not installed")


if __name__ == "__main__":
    main()
