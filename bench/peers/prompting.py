"""The two ways to run prefill and decode of protocol.py on other engines."""

from protocol import Clock


def prompt_tokens(count, vocabulary):
    """The same for all engines: the token of a position depends on the position alone."""
    return [at * 7919 % vocabulary for at in range(count)]


class Stepping:
    """An engine whose `sessions` take tokens and can be rewound.

    A session has `end` (tokens held), `step` (at most so many at once), `rewind(end)`,
    `feed(count)` of the next tokens, and `check()`, which refuses logits of NaN.
    """

    def prefill(self, session, tokens, rounds=1):
        clock, of = Clock(), self.sessions[session]
        for _ in range(rounds):
            of.rewind(0)
            with clock:
                extend(of, tokens)
        of.check()
        return clock.times()

    def decode(self, session, context, tokens, rounds=1):
        clock, of = Clock(), self.sessions[session]
        for _ in range(rounds):
            of.rewind(min(context, of.end))
            extend(of, context)
            with clock:
                for _ in range(tokens):
                    of.feed(1)
        of.check()
        return clock.times()


def extend(session, end):
    while session.end < end:
        session.feed(min(session.step, end - session.end))


class Generating:
    """An engine that can only be asked for so many tokens after a prompt.

    It has `generate(session, context, count, fresh, on_token)`, which calls `on_token` after
    each; `fresh` says that nothing held from before may be used. A round of decode is timed from
    the first new token to the last, so after a context of nothing there is a prompt of one token.
    """

    def prefill(self, session, tokens, rounds=1):
        clock = Clock()
        for _ in range(rounds):
            with clock:
                self.generate(session, tokens, 1, fresh=True, on_token=lambda: None)
        return clock.times()

    def decode(self, session, context, tokens, rounds=1):
        clock = Clock()
        for _ in range(rounds):
            count = Count(clock, tokens)
            self.generate(session, max(context, 1), tokens + 1, fresh=False, on_token=count)
            if count.seen != tokens + 1:
                raise RuntimeError(f"{count.seen} tokens came instead of {tokens + 1}")
        return clock.times()


class Count:
    """Starts a clock at the first call and stops it `tokens` calls later."""

    def __init__(self, clock, tokens):
        self.clock, self.tokens, self.seen = clock, tokens, 0

    def __call__(self):
        if self.seen == 0:
            self.clock.start()
        if self.seen == self.tokens:
            self.clock.stop()
        self.seen += 1
