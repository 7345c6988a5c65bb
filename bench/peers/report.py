"""The table of ratios and the plot of them, from the rows that compare.py collects."""

import statistics

COLUMNS = ("shape", "weights", "cache", "threads", "measure", "decant tok/s", "llama.cpp tok/s",
           "ratio", "of bests", "decant GB/s", "read GB/s", "of read", "other load")


def markdown(columns, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [*columns, *rows])


def head(columns):
    return [columns, ["---"] * len(columns)]


def peer(row):
    """Name and seconds of llama.cpp's faster attention, or nothing."""
    return min(row["llama"].items(), key=lambda item: statistics.median(item[1]), default=None)


def ratio(row, of=statistics.median):
    return of(peer(row)[1]) / of(row["decant"]) if row["llama"] else None


def number(value, digits=2):
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def cells(row):
    seconds = statistics.median(row["decant"])
    theirs = peer(row)
    rate = row["token_bytes"] and row["token_bytes"] * row["tokens"] / seconds
    shown = theirs and f"{number(row['tokens'] / statistics.median(theirs[1]), 1)} {theirs[0]}"
    return (row["shape"], row["weights"], row["cache"], row["threads"], row["measure"],
            number(row["tokens"] / seconds, 1), shown or "", number(ratio(row)),
            number(ratio(row, min)), number(rate and rate * 1e-9, 1),
            number(rate and row["read_rate"] * 1e-9, 1), number(rate and rate / row["read_rate"]),
            number(row["other_load"]))


def table(rows, header=True):
    """Medians; `ratio` is ours over theirs, above one where decant is faster."""
    return markdown(head(COLUMNS) if header else [], map(cells, rows))


def attention_table(rows):
    if not rows:
        return ""
    columns = ("keys", "rows", "cache", "threads", "decant ms", "torch ms", "ratio", "other load")
    return markdown(head(columns), (
        (row["keys"], row["rows"], row["cache"], row["threads"],
         *(number(1e3 * statistics.median(row[name]), 3) for name in ("decant", "torch")),
         number(statistics.median(row["torch"]) / statistics.median(row["decant"])),
         number(row["other_load"])) for row in rows))


def plot(results, path):
    """One panel for every shape and number of threads: bars of ratios, from one on."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    rows = [row for row in results["rows"] if row["llama"]]
    panels = list(dict.fromkeys((row["shape"], row["threads"]) for row in rows))
    if not panels:
        return
    kinds = list(dict.fromkeys((row["weights"], row["cache"]) for row in rows))
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    figure, axes = pyplot.subplots(len(panels), squeeze=False, layout="constrained",
                                   figsize=(2 + 1.8 * len(measures), 1 + 2.8 * len(panels)))
    colours = pyplot.get_cmap("tab20").colors
    width = 0.8 / len(kinds)
    for axis, (shape, threads) in zip(axes[:, 0], panels):
        for at, kind in enumerate(kinds):
            bars = {row["measure"]: ratio(row) for row in rows
                    if (row["shape"], row["threads"]) == (shape, threads)
                    and (row["weights"], row["cache"]) == kind}
            places = [measures.index(name) + (at + 0.5) * width - 0.4 for name in bars]
            drawn = axis.bar(places, bars.values(), width, color=colours[at % 20],
                             label=f"{kind[0]}, {kind[1]} cache")
            axis.bar_label(drawn, fmt="%.2f", fontsize=6, rotation=90, padding=2)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.margins(y=0.2)
        axis.set_xticks(range(len(measures)), measures)
        axis.set_title(f"{shape}, {threads} thread{'s' if threads > 1 else ''}", fontsize=10)
        axis.set_ylabel("decant / llama.cpp")
    axes[0, 0].legend(fontsize=7, ncols=4)
    machine = results["machine"]
    figure.suptitle("\n".join([machine["processor"] + ", " + machine["date"],
                               *(name.split(" (")[0] for name in results["engines"]),
                               machine["command"]]), fontsize=7, wrap=True)
    figure.savefig(path, dpi=150)
