"""Contenders in turns: A, B, A, B, so that what disturbs the machine disturbs all of them.

On one thread the processor time of a process is compared, which a busy neighbour does not
lengthen; on several threads, wall time.
"""

import statistics
import time
from dataclasses import dataclass, field

from protocol import Refusal

SETTLE = 0.02  # seconds in which the threads of the last contender fall asleep


@dataclass
class Contender:
    """One engine and one command to it; `warm_up` is what is changed in the first, uncounted."""

    name: str
    engine: object
    command: dict
    warm_up: dict = field(default_factory=dict)
    seconds: list = field(default_factory=list)
    answer: dict = field(default_factory=dict)
    failure: str = ""

    def run(self, threads, warming=False):
        time.sleep(SETTLE)
        changed = self.warm_up if warming else {}
        try:
            self.answer = self.engine.ask(**{**self.command, **changed, "rounds": 1})
        except Refusal as refusal:
            self.failure, self.seconds = str(refusal), []
            return
        if not warming:
            self.seconds += self.answer["cpu" if threads == 1 else "wall"]

    def median(self):
        return statistics.median(self.seconds)

    def best(self):
        return min(self.seconds)


def race(contenders, threads, rounds, budget):
    """Runs every contender `rounds` times, or twice and until `budget` seconds are over.

    One that fails is not run again, and has no seconds.
    """
    for contender in contenders:
        contender.run(threads, warming=True)
    start = time.perf_counter()
    for done in range(rounds):
        if done >= 2 and time.perf_counter() - start > budget:
            break
        for contender in contenders:
            if not contender.failure:
                contender.run(threads)
