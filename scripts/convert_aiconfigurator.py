#!/usr/bin/env python3
"""Converts aiconfigurator's parquet tables to the CSV that ts.read_profile_data reads.

    python3 scripts/convert_aiconfigurator.py gemm_perf.parquet [more.parquet ...] [--out DIR]

Each FILE.parquet becomes FILE.csv beside it, or in DIR. Needs pyarrow (pip install pyarrow).
"""

import argparse
import sys
from pathlib import Path

# What every table of measured operations has; gemm, attention and collectives add their own columns.
REQUIRED = ["framework", "version", "device", "op_name", "latency"]


def load_pyarrow():
    try:
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        sys.exit("convert_aiconfigurator: this needs pyarrow, which is not installed; pip install pyarrow")
    return pyarrow


def convert(pyarrow, source: Path, folder: Path) -> Path:
    try:
        table = pyarrow.parquet.read_table(source)
    except (OSError, pyarrow.lib.ArrowInvalid) as error:
        sys.exit(f"convert_aiconfigurator: {source}: {error}")
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        sys.exit(
            f"convert_aiconfigurator: {source} has no column {', '.join(missing)}; it has "
            f"{', '.join(table.column_names)}"
        )
    target = folder / (source.stem + ".csv")
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(table, target, options)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.parquet")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the CSV files; default: beside each")
    args = parser.parse_args()
    pyarrow = load_pyarrow()
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    for source in args.files:
        target = convert(pyarrow, source, args.out or source.parent)
        print(f"{source} -> {target}")


if __name__ == "__main__":
    main()
