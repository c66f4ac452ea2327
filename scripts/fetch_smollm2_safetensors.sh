#!/usr/bin/env bash
# A small real model that has not been quantised: SmolLM2-135M in bfloat16 with its tokenizer, for `tessera quantise`.
#   bash scripts/fetch_smollm2_safetensors.sh [DIR]     default: build/models/smollm2-135m-bf16
# Downloads 271 MB from Hugging Face, or from the mirror that HF_ENDPOINT names, and prints the folder; on stderr the
# licence, and each file with its SHA-256. Files that are there already, copied by hand too, are only verified. Needs curl.
set -euo pipefail
id=HuggingFaceTB/SmolLM2-135M
revision=93efa2f097d58c2a74874c7e644dbc9b0cee75a2
files="
config.json            1d556eab73b69c7f11f64c557a2f9c6f440bd4c6b89bb2584a6b498c92603843
tokenizer.json         9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c
tokenizer_config.json  4bb9af56a342753d39374f4016a16574cab299fe088e896f425ce3c433f61424
model.safetensors      80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1"
licence="Apache-2.0 (https://huggingface.co/$id)"
endpoint=${HF_ENDPOINT:-https://huggingface.co}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/build/models/smollm2-135m-bf16}

fail() { echo "fetch_smollm2_safetensors: $*" >&2; exit 1; }
verified() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

mkdir -p "$folder"
echo "licence $licence" >&2
while read -r name sha256; do
  [ -n "$name" ] || continue
  if ! verified "$folder/$name" "$sha256"; then
    [ ! -e "$folder/$name" ] || fail "$folder/$name is there with another SHA-256 than $sha256; move it away"
    command -v curl >/dev/null || fail "curl is not installed; or copy $name into $folder by hand"
    url=$endpoint/$id/resolve/$revision/$name
    echo "from    $url" >&2
    temporary=$(mktemp "$folder/.fetch.XXXXXX")
    trap 'rm -f "$temporary"' EXIT
    curl --fail --location --silent --show-error --retry 2 --output "$temporary" "$url" \
      || fail "cannot download $url: is there a network? HF_ENDPOINT names a mirror; files copied into" \
              "$folder by hand are taken, too"
    verified "$temporary" "$sha256" \
      || fail "$url has $(stat -c %s "$temporary") bytes and another SHA-256 than the $sha256 known here"
    chmod 644 "$temporary"
    mv "$temporary" "$folder/$name"
    trap - EXIT
  fi
  echo "sha256  $sha256  $name" >&2
done <<<"$files"
echo "$folder"
