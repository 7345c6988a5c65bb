"""bench/plots/draw.py - draws the plots of bench/README.md from the tables that stand there.

    python bench/plots/draw.py

Needs matplotlib. A table is named by words of its header; a plot has no figures of its own.
"""
import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend comes first)

HERE = pathlib.Path(__file__).parent
COLOURS = {"f32": "#1f77b4", "bf16": "#aec7e8", "q8_0": "#ff7f0e", "q4_0": "#ffbb78"}


def tables():
    """The tables of bench/README.md in order, each a list of rows of cells, the header first."""
    found, lines = [], (HERE.parent / "README.md").read_text().splitlines()
    for before, line in zip([""] + lines, lines):
        if not line.startswith("|"):
            continue
        if not before.startswith("|"):
            found.append([])
        if not line.startswith("|---"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def table(*words, which=0):
    """The rows below the first header that has all of `words`; below the last one for which=-1."""
    matching = [rows for rows in tables() if all(word in " ".join(rows[0]) for word in words)]
    return matching[which][1:]


def number(cell):
    return float(cell.replace(",", ""))


def save(figure, name):
    figure.tight_layout()
    figure.savefig(HERE / name, dpi=100)
    pyplot.close(figure)


def draw_llama():
    """Grouped bars: times llama.cpp, by measure and weight format, for one thread and for two."""
    measures = ["prefill of 512", "decode", "decode at 2,048"]
    rows = table("prefill of 512", "decode at 8,192", which=-1)
    figure, plots = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for threads, plot in enumerate(plots, start=1):
        for at, row in enumerate(row for row in rows if row[1] == str(threads)):
            places = [measure + (at - 1.5) * 0.2 for measure in range(len(measures))]
            ratios = [number(cell) for cell in row[2:2 + len(measures)]]
            bars = plot.bar(places, ratios, 0.2, color=COLOURS[row[0]], label=row[0])
            plot.bar_label(bars, fmt="%.2f", fontsize=7)
        plot.axhline(1, color="black", linewidth=1)
        plot.set_xticks(range(len(measures)), measures)
        plot.set_title(f"{threads} thread{'s' * (threads > 1)}")
    plots[0].set_ylabel("tokens a second,\ntimes those of llama.cpp")
    plots[0].legend(title="weights", ncols=4, fontsize=8)
    save(figure, "llama.png")


def draw_streamed():
    """Horizontal bars: how fast one row reads weights, as a multiple of a plain read."""
    rows = table("of eight streams", "weights")
    figure, plot = pyplot.subplots(figsize=(7, 2.8))
    for at, row in enumerate(reversed(rows)):
        least, most = number(row[1]), number(row[2])
        plot.barh(at, most, color=COLOURS[row[0]])
        plot.text(most + 0.1, at, f"{least} to {most}", va="center", fontsize=9)
    (_, *one), (_, *eight) = table("bound")[:2]
    bounds = ((one, "0.2", "one stream"), (eight, "0.5", "eight streams"))
    for (least, most), colour, what in bounds:
        plot.axvspan(number(least), number(most), color=colour, alpha=0.35, linewidth=0,
                     label=f"plain read, {what}")
    plot.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
    plot.set_xlim(0, 18.5)
    plot.set_xlabel("GB/s of weights, one row times 256 MiB")
    plot.legend(loc="lower left", fontsize=8)
    save(figure, "streamed.png")


def draw_formats():
    """Points: perplexity over that of an f32 KV cache, by bytes of a key and a value."""
    rows = [row for row in table("perplexity") if row[0] == "as stored"]
    figure, plots = pyplot.subplots(1, 2, figsize=(9, 3.4))
    titles = ("Shakespeare, bf16 weights", "TinyStories-656K")
    for plot, column, title in zip(plots, (4, 5), titles):
        exact = number(rows[0][column])
        for row in rows:
            cost = 100 * (number(row[column]) / exact - 1)
            plot.plot(number(row[3]), cost, "o", color="#1f77b4")
            above = row[2] not in ("bf16", "int8")
            left = row[2] == "int8:int4"
            plot.annotate(row[2], (number(row[3]), cost), textcoords="offset points",
                          xytext=(-5 if left else 6, 5 if above else -11), fontsize=8,
                          ha="right" if left else "left")
        plot.axhline(0, color="0.7", linewidth=1, zorder=0)
        plot.margins(y=0.15)
        plot.set_xscale("log", base=2)
        plot.set_xticks([160, 264, 512, 1024], ["160", "264", "512", "1,024"])
        plot.set_xlim(140, 1500)
        plot.set_title(title)
        plot.set_xlabel("bytes of a key and a value of 128 elements")
    plots[0].set_ylabel("perplexity above f32, %")
    save(figure, "formats.png")


if __name__ == "__main__":
    draw_llama()
    draw_streamed()
    draw_formats()
