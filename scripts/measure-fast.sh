#!/bin/sh
# Whether the fast policy may be a default: KL divergence from the CPU executor and agreement of the best token, over a text of your own, for each
# model, by steps of 8 rows (the kernels of decoding) and by wide ones. Writes bench/results/DATE-fast-policy.txt. 2,000 tokens of a 0.5B model take the
# CPU some minutes. Usage: scripts/measure-fast.sh ZINC TEXT DEVICE MODEL...
#
# The bar: a mean below 1e-3 nats and more than 99 % the same best token, over at least 2,000 tokens.
set -eu
[ $# -ge 4 ] || { echo "usage: scripts/measure-fast.sh ZINC TEXT DEVICE MODEL..." >&2; exit 2; }
zinc=$1 text=$2 device=$3
shift 3
out=bench/results/$(date +%F)-fast-policy.txt
{
    "$zinc" --version
    "$zinc" devices
    for model in "$@"; do
        for chunk in 8 512; do
            for policy in exact fast; do
                echo
                echo "== $(basename "$model"), $policy, steps of $chunk"
                "$zinc" perplexity -m "$model" "$text" --kl --backend vulkan --device "$device" --policy "$policy" --chunk "$chunk" 2>&1
            done
        done
    done
} >"$out"
echo "written: $out"
