"""The tables: medians, ratios against the kernel in Chromium, growth, start-up, and the budgets."""

from __future__ import annotations

from statistics import median
from typing import Any

BASE = "kernel-chromium"
WORK_TITLES = {"sft": "SFT step", "sample": "64 answers", "grpo": "GRPO iteration", "cot": "whole `cot`"}
UNITS = {"sft": 1, "sample": 1, "grpo": 1, "cot": 1000}


def text(result: dict[str, Any]) -> str:
    """The whole report as Markdown."""
    commit = result["commit"]["id"][:8] + (" with changes" if result["commit"]["changed"] else "")
    place = result["machine"]
    lines = [
        f"{result['date'][:10]}, commit {commit}; {place['processor']}, {place['cores']} cores, "
        f"{place['memory_gb']} GB; Chromium {result['versions']['Chromium'] or '–'}",
    ]
    if result["settings"]["quick"]:
        lines.append("A quick run: it shows that everything works; its numbers are not to be quoted.")
    if any(row["why"] or any(row.get(work) for work in WORK_TITLES) for row in result["peers"].values()):
        lines += ["", *work_table(result), *remarks(result)]
    if result["growth"]:
        lines += ["", *growth_table(result)]
    if result["simd"]:
        lines += ["", *simd_lines(result["simd"])]
    if result["visits"]:
        lines += ["", *visit_table(result["visits"])]
    lines += ["", *budget_table(result)]
    return "\n".join(lines)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table whose columns stand under each other in a terminal too; all but the first to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: list[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return [line(head), rule, *map(line, rows)]


def middle(values: list[float] | None) -> float | None:
    return median(values) if values else None


def number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def medians(result: dict[str, Any], work: str) -> dict[str, float]:
    found = {name: middle(row.get(work)) for name, row in result["peers"].items()}
    if work == "cot":
        in_page = page_cot(result)
        if in_page is not None:
            found[BASE] = in_page
    return {name: value for name, value in found.items() if value is not None}


def page_cot(result: dict[str, Any]) -> float | None:
    """The widget in its page, with the kernel, the runtime being ready: from the click to the end."""
    visits = result["visits"]
    if not visits or visits["backend"] != "kernel":
        return None
    return middle([visit["prefetched"]["run_ms"] for visit in visits["visits"]])


def work_table(result: dict[str, Any]) -> list[str]:
    columns = {work: medians(result, work) for work in WORK_TITLES}
    rows = []
    for name, row in result["peers"].items():
        cells = [row["title"]]
        for work, found in columns.items():
            if name not in found:
                cells.append("–")
                continue
            ratio = f"  ×{found[name] / found[BASE]:.2f}" if BASE in found else ""
            cells.append(f"{number(found[name] / UNITS[work])}{ratio}")
        rows.append(cells)
    heads = [f"{title}, {'s' if UNITS[work] == 1000 else 'ms'}" for work, title in WORK_TITLES.items()]
    return table(["", *heads], rows)


def remarks(result: dict[str, Any]) -> list[str]:
    lines = ["", "Medians; × is the ratio to the kernel in Chromium (above 1: slower than it)."]
    for row in result["peers"].values():
        if row["why"]:
            lines.append(f"- {row['title']}: {row['why']}")
        if row.get("cot_why"):
            lines.append(f"- {row['title']}, whole `cot`: {row['cot_why']}")
    checks = [row["check"] for row in result["peers"].values() if row.get("check") and row["check"]["agrees"]]
    if checks:
        furthest = max(check["logprobs"] for check in checks)
        lines.append(
            f"Every peer timed computes the same model: loss {checks[0]['judged_loss']:.6f} on the first batch, "
            f"log-probabilities within {furthest:.0e} of the float64 reference."
        )
    return lines


def growth_table(result: dict[str, Any]) -> list[str]:
    names = [name for name in result["peers"] if any(name in row["ms"] for row in result["growth"])]
    rows = []
    for row in result["growth"]:
        cells = [f"width {row['width']}, batch {row['batch']}"]
        cells += [number(median(row["ms"][name])) if name in row["ms"] else "–" for name in names]
        rows.append(cells)
    return ["SFT step as it grows, ms:", "", *table(["", *(result["peers"][name]["title"] for name in names)], rows)]


def best_peak(simd: dict[str, Any]) -> tuple[str, float]:
    """(chains side by side, GFLOP/s) of the fastest loop of bare multiplications and additions."""
    count, rates = max(simd["peak"].items(), key=lambda item: max(item[1]))
    return count, max(rates)


def product_share(simd: dict[str, Any]) -> float:
    """Both at their best: what is asked is what the machine can do, and what the kernel can make of it."""
    return max(simd["products"]) / best_peak(simd)[1]


def simd_lines(simd: dict[str, Any]) -> list[str]:
    count, peak = best_peak(simd)
    loops = ", ".join(f"{chains}: {max(rates):.1f}" for chains, rates in simd["peak"].items())
    return [
        f"WASM SIMD, multiplications and additions: {peak:.1f} GFLOP/s with {count} chains ({loops});"
        f" the kernel's products: {max(simd['products']):.1f} GFLOP/s, {product_share(simd):.0%} of it.",
    ]


CLICK_TO = {"click to first point": "click_to_point_ms", "click to step 250": "click_to_trained_point_ms"}


def visit_medians(visits: dict[str, Any], kind: str) -> dict[str, float]:
    """Milliseconds of each stage, and from the click to the points that `CLICK_TO` names and the record knows."""
    found = [visit[kind] for visit in visits["visits"]]
    names = {name for visit in found for name in visit["stages"]}
    medians = {name: median([visit["stages"][name] for visit in found if name in visit["stages"]]) for name in names}
    told = {title: key for title, key in CLICK_TO.items() if all(key in visit for visit in found)}
    return {**medians, **{title: median(visit[key] for visit in found) for title, key in told.items()}}


def visit_table(visits: dict[str, Any]) -> list[str]:
    from bench.visits import STAGES

    columns = {kind: visit_medians(visits, kind) for kind in ("cold", "second", "prefetched")}
    rows = [
        [name, *(number(column[name]) if name in column else "–" for column in columns.values())]
        for name in (*STAGES, *CLICK_TO)
    ]
    for title, what in (("runtime, MB", "runtime"), ("page, kB", "page")):
        unit = 1e6 if what == "runtime" else 1e3
        values = [median(visit[kind]["bytes"][what] for visit in visits["visits"]) / unit for kind in columns]
        rows.append([f"transferred: {title}", *map(number, values)])
    head = ["start-up, ms", "cold", "second visit", "prefetched"]
    return [*table(head, rows), "", f"Backend of the page: {visits['backend']}. `compile` runs beside the fetch."]


def budgets(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Every budget that can be measured yet: what, limit, measured (None: not in this run), met."""
    sft, sampled = medians(result, "sft"), medians(result, "sample")
    visits, simd, build = result["visits"], result["simd"], result["build"]
    found: list[dict[str, Any]] = []

    def at_most(what: str, limit: float, measured: float | None, unit: str) -> None:
        met = None if measured is None else measured <= limit
        found.append({"what": what, "limit": f"≤ {limit:g}{unit}", "measured": measured, "unit": unit, "met": met})

    def share_of(peer: str) -> float | None:
        return sft[BASE] / sft[peer] if BASE in sft and peer in sft else None

    at_most("SFT step against PyTorch eager natively", 1 / 3, share_of("torch-eager"), "")
    at_most("SFT step against JAX jit natively", 1, share_of("jax-jit"), "")
    at_most("SFT step against ONNX Runtime Web training", 1 / 2, share_of("ort-web"), "")
    at_most("SFT step against the NumPy reference in Pyodide", 1 / 12, share_of("numpy-chromium"), "")
    share = product_share(simd) if simd else None
    met = None if share is None else share >= 0.6
    what = "products, of the WASM SIMD multiply-add rate"
    found.append({"what": what, "limit": "≥ 0.6", "measured": share, "unit": "", "met": met})
    at_most("sampling 64 answers in Chromium", 3, sampled.get(BASE), " ms")
    in_page = page_cot(result)
    at_most("whole `cot` in its page", 3, in_page / 1000 if in_page else None, " s")
    lesson = visits["lesson"] if visits and visits["backend"] == "kernel" else None
    count = f" ({lesson['widgets']} so far)" if lesson else ""
    at_most(f"every widget of lesson 19{count}", 15, lesson["ms"] / 1000 if lesson else None, " s")
    page = visits["lesson_bytes"]["page"] / 1000 if visits else None
    at_most("lesson page before any widget runs", 200, page, " kB")
    for kind, title, limit in (("cold", "cold", 3), ("second", "second visit", 2.2), ("prefetched", "prefetched", 0.3)):
        usable = visits and visits["backend"] == "kernel"
        seconds = visit_medians(visits, kind)["click to first point"] / 1000 if usable else None
        at_most(f"click to first point, {title}", limit, seconds, " s")

    def moved(kind: str) -> float | None:
        return median(visit[kind]["bytes"]["runtime"] for visit in visits["visits"]) / 1e6 if visits else None

    at_most("runtime transferred on a first visit", 8.5, moved("cold"), " MB")
    at_most("runtime transferred on the second", 0, moved("second"), " MB")
    memory = visits["lesson"]["memory_mb"] if visits else None
    at_most(f"memory of the tab after the widgets of lesson 19{count}", 300, memory, " MB")
    at_most("build of the site, warm cache", 60, build.get("warm_seconds"), " s")
    same = build.get("identical")
    shown = None if same is None else float(same)
    found.append({"what": "two builds are byte-identical", "limit": "yes", "measured": shown, "unit": "", "met": same})
    return found


def budget_table(result: dict[str, Any]) -> list[str]:
    said = {True: "met", False: "NOT MET", None: "not measured"}
    rows = []
    for budget in budgets(result):
        measured = budget["measured"]
        shown = "–" if measured is None else f"{number(measured)}{budget['unit']}"
        if budget["limit"] == "yes" and measured is not None:
            shown = "yes" if measured else "no"
        limit = budget["limit"].replace("0.333333", "1/3").replace("0.0833333", "1/12")
        rows.append([budget["what"], limit, shown, said[budget["met"]]])
    return table(["budget", "limit", "measured", ""], rows)
