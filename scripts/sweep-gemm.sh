#!/bin/sh
# Sweeps products in tiles over those of Qwen3-8B Q4_K_M, from a few decode rows to a step of a prompt: every tile worth measuring, the fastest
# first. Writes one file of JSON. Usage: scripts/sweep-gemm.sh ZINC OUT.json [DEVICE [SHAPES [COLUMNS [FORMATS [ROTATE]]]]]
set -eu
[ $# -ge 2 ] || { echo "usage: scripts/sweep-gemm.sh ZINC OUT.json [DEVICE [SHAPES [COLUMNS [FORMATS [ROTATE]]]]]" >&2; exit 2; }
zinc=$1 out=$2 device=${3:-}
shapes=${4:-4096x4096,1024x4096,12288x4096:gated,4096x12288}
columns=${5:-8,16,32,64,105,128,512,2048}
formats=${6:-Q4_K,Q6_K}
"$zinc" bench gemm ${device:+--device "$device"} --shape "$shapes" --columns "$columns" --format "$formats" \
    --rotate "${7:-256MiB}" --sweep --repeats 3 --json >"$out"
echo "written: $out"
