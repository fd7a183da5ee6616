"""What an agent might write to answer a question about a file it was given: totals by region, as JSON."""
import csv
import json
import platform
import sys

totals: dict[str, float] = {}
rows = 0
with open(sys.argv[1], newline="", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        totals[row["region"]] = totals.get(row["region"], 0) + int(row["units"]) * float(row["price"])
        rows += 1

json.dump(
    {
        "rows": rows,
        "revenue": {region: round(total, 2) for region, total in sorted(totals.items())},
        "best": max(totals, key=totals.__getitem__),
        "kernel": platform.release(),
        "host": platform.node(),
    },
    sys.stdout,
    indent=2,
)
print()
