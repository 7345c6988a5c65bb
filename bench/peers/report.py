"""The table of ratios and the plot of them, from the rows that compare.py collects."""

import statistics

COLUMNS = ("shape", "weights", "cache", "threads", "measure", "decant tok/s", "peer", "peer tok/s",
           "ratio", "of bests", "decant GB/s", "read GB/s", "of read", "other load")


def markdown(columns, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [*columns, *rows])


def head(columns):
    return [columns, ["---"] * len(columns)]


def fastest(peer):
    """Variant and seconds of a peer's faster way of computing, or nothing."""
    return min(peer["seconds"].items(), key=lambda item: statistics.median(item[1]),
               default=("", None))


def ratio(row, peer, of=statistics.median):
    seconds = fastest(peer)[1]
    return of(seconds) / of(row["decant"]) if seconds else None


def number(value, digits=2):
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def peer_cells(row, peer):
    """Name with its own words for formats, tokens a second, and the ratios."""
    if not peer:
        return "", "", "", ""
    variant, seconds = fastest(peer)
    name = f"{peer['peer']} {variant}".strip() + f" ({peer['weights']}, {peer['cache']} cache)"
    return (name, number(row["tokens"] / statistics.median(seconds), 1),
            number(ratio(row, peer)), number(ratio(row, peer, min)))


def cells(row, peer):
    seconds = statistics.median(row["decant"])
    rate = row["token_bytes"] and row["token_bytes"] * row["tokens"] / seconds
    return (row["shape"], row["weights"], row["cache"], row["threads"], row["measure"],
            number(row["tokens"] / seconds, 1), *peer_cells(row, peer),
            number(rate and rate * 1e-9, 1), number(rate and row["read_rate"] * 1e-9, 1),
            number(rate and rate / row["read_rate"]), number(row["other_load"]))


def table(rows, header=True):
    """Medians, a line for every peer; `ratio` is above one where decant is faster."""
    return markdown(head(COLUMNS) if header else [],
                    (cells(row, peer) for row in rows for peer in row["peers"] or [None]))


def attention_table(rows):
    if not rows:
        return ""
    names = unique(peer["peer"] for row in rows for peer in row["peers"])
    columns = ("keys", "rows", "cache", "threads", "decant ms",
               *(column for name in names for column in (f"{name} ms", "ratio")), "other load")
    return markdown(head(columns), (attention_cells(row) for row in rows))


def attention_cells(row):
    theirs = []
    for peer in row["peers"]:
        variant, seconds = fastest(peer)
        shown = seconds and f"{milliseconds(seconds)} {variant}".strip()
        theirs += [shown or "", number(ratio(row, peer))]
    return (row["keys"], row["rows"], row["cache"], row["threads"], milliseconds(row["decant"]),
            *theirs, number(row["other_load"]))


def milliseconds(seconds):
    return number(1e3 * statistics.median(seconds), 3)


def plot(results, path):
    """Bars of ratios, from one on: a column for every peer, a row for shape and threads."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    rows = [row for row in results["rows"] if row["peers"]]
    if not rows:
        return
    peers = unique(peer["peer"] for row in rows for peer in row["peers"])
    settings = unique((row["shape"], row["threads"]) for row in rows)
    measures = unique(row["measure"] for row in rows)
    kinds = unique((row["weights"], row["cache"]) for row in rows)
    figure, axes = pyplot.subplots(
        len(settings), len(peers), squeeze=False, layout="constrained",
        figsize=(2 + 1.8 * len(measures) * len(peers), 1 + 2.8 * len(settings)))
    for line, setting in zip(axes, settings):
        for axis, name in zip(line, peers):
            ratios = {(row["weights"], row["cache"], row["measure"]): ratio(row, peer)
                      for row in rows if (row["shape"], row["threads"]) == setting
                      for peer in row["peers"] if peer["peer"] == name}
            bars(axis, ratios, kinds, measures)
            axis.set_title(f"{setting[0]}, {setting[1]} thread{'s' * (setting[1] > 1)}",
                           fontsize=10)
            axis.set_ylabel(f"decant / {name}")
    axes[0, 0].legend(fontsize=7, ncols=4)
    machine = results["machine"]
    figure.suptitle("\n".join([machine["processor"] + ", " + machine["date"],
                               *(name.split(" (")[0] for name in results["engines"]),
                               machine["command"]]), fontsize=7, wrap=True)
    figure.savefig(path, dpi=150)


def bars(axis, ratios, kinds, measures):
    """Side by side for every measure; `ratios` by weights, cache and measure."""
    import matplotlib
    colours = matplotlib.colormaps["tab20"].colors
    thickness = 0.8 / len(kinds)
    for at, kind in enumerate(kinds):
        there = [measure for measure in measures if (*kind, measure) in ratios]
        drawn = axis.bar([measures.index(name) + (at + 0.5) * thickness - 0.4 for name in there],
                         [ratios[(*kind, name)] for name in there], thickness,
                         color=colours[at % 20], label=f"{kind[0]}, {kind[1]} cache")
        axis.bar_label(drawn, fmt="%.2f", fontsize=6, rotation=90, padding=2)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.margins(y=0.2)
    axis.set_xlim(-0.5, len(measures) - 0.5)
    axis.set_xticks(range(len(measures)), measures)


def unique(items):
    """In the order in which they came."""
    return list(dict.fromkeys(items))
