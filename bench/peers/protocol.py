"""How the driver talks to an engine: a process that gets a line of JSON and answers with one.

    load      shape, weights, positions, model (a GGUF file, there if any engine reads it)
                                                -> engine; of decant also weight_bytes
                                                   of others weights, in their words
    session   session (its name), cache, threads, capacity, chunk, and what one engine knows alone
                                                -> of decant bytes_per_token
                                                   of others cache, the format they took
    prefill   session, tokens, rounds: into an empty context    -> times
    decode    session, context, tokens, rounds: one by one      -> times
    read      threads, streams, rounds: plain reads             -> times, bytes
    attention heads, kv_heads, head_dim, keys, rows, cache, threads, rounds
                                                -> times, calls of one round

Times are two lists, `wall` and `cpu`, with the seconds of every round. An engine computes prompts
`chunk` tokens at a time, leaves its cache as it is, and times only what it was asked for. Whatever
fails, and whatever an engine lacks, is answered as `error`.
"""

import json
import os
import subprocess
import sys
import time


class Clock:
    """Seconds of a block of code, by wall clock and by the processor time of the process."""

    def __init__(self):
        self.wall, self.cpu = [], []

    def start(self):
        self.started = time.perf_counter(), time.process_time()

    def stop(self):
        self.cpu.append(time.process_time() - self.started[1])
        self.wall.append(time.perf_counter() - self.started[0])

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.stop()

    def times(self):
        return {"wall": self.wall, "cpu": self.cpu}


def serve(engine):
    """The engine's side: answers every command by the method of its name, until the input ends.

    Standard output is reserved for answers; what libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(engine, command.pop("op"))(**command)
        except NotImplementedError as error:
            answer = {"error": str(error)}
        except Exception as error:  # whatever it is, the driver reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


class Refusal(RuntimeError):
    """An engine's `error`, or that it has ended."""


class Engine:
    """The driver's side: a running process."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, op, **command):
        try:
            print(json.dumps({"op": op, **command}), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise Refusal(f"{op}: it ended with code {self.process.wait()}") from None
        if "error" in answer:
            raise Refusal(f"{op}: {answer['error']}")
        return answer

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # it has ended, with words of ours unread
            pass
        self.process.wait()
