"""Makes the table of the benchmarks' rows and the file bench.json: table.py ROWS JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HEADINGS = ("what", "ours", "peer", "limit", "ratio", "aim", "", "peer is")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def first_line(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "none"


def machine() -> dict[str, str]:
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release()}",
        "glibc": " ".join(platform.libc_ver()),
        "compiler": first_line(os.environ.get("CC", "cc"), "--version"),
        "go": first_line("go", "version"),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f} at the end, over the last minute",
    }


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def cell(row: dict[str, Any], key: str) -> str:
    if key not in row:
        return "-"
    if key == "ratio":
        return f"{row[key]:.2f}"
    return f"{number(row[key])} {row['unit']}" if key == "ours" else number(row[key])


def aim(row: dict[str, Any]) -> str:
    if "bound" not in row:
        return "-"
    sign = "<=" if row["aim"] == "at most" else ">="
    unit = f" {row['unit']}" if row["aim_of"] == "value" else ""
    return f"{sign} {row['bound']:g}{unit}"


def line(row: dict[str, Any], notes: list[str]) -> tuple[str, ...]:
    verdict = f"not run: {row['why']}" if "why" in row else row["verdict"]
    if "note" in row:
        verdict += f" [{notes.index(row['note']) + 1}]"
    figures = (cell(row, key) for key in ("ours", "peer", "limit", "ratio"))
    return (row["what"], *figures, aim(row), verdict, row.get("peer_name", "-"))


def table(rows: list[dict[str, Any]], notes: list[str]) -> str:
    body = [HEADINGS, *(line(row, notes) for row in rows)]
    widths = [max(len(cells[column]) for cells in body) for column in range(len(HEADINGS))]
    text = []
    for cells in body:
        figures = (cells[column].rjust(widths[column]) for column in range(1, 6))
        text.append("  ".join((cells[0].ljust(widths[0]), *figures, cells[6].ljust(widths[6]), cells[7])).rstrip())
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def main() -> None:
    rows_path, json_path = sys.argv[1:]
    records = [json.loads(line) for line in Path(rows_path).read_text().splitlines()]
    rows = [record for record in records if record.pop("kind") == "row"]
    facts = machine() | {record["name"]: record["value"] for record in records if "name" in record}
    Path(json_path).write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n")

    notes = list(dict.fromkeys(row["note"] for row in rows if "note" in row))
    print(table(rows, notes))
    for number_of_note, note in enumerate(notes, 1):
        print(f"[{number_of_note}] {note}")
    print("machine: " + "; ".join(f"{name} {value}" for name, value in facts.items()))
    judged = [row for row in rows if row["verdict"] == "reached" or row["verdict"].startswith("not reached")]
    reached = sum(row["verdict"] == "reached" for row in judged)
    print(f"{reached} of {len(judged)} aims reached, {sum('why' in row for row in rows)} not run; {json_path}")


if __name__ == "__main__":
    main()
