#!/bin/sh
# Sweeps the integer-dot kernel over the products of a decode step of Qwen3-8B Q4_K_M, beside the exact kernel, and writes one file of JSON: a line
# of about 150 tiles each. Usage: scripts/sweep-dot.sh ZINC OUT.json [DEVICE]
set -eu
zinc=$1 out=$2
[ $# -gt 2 ] && set -- --device "$3" || set --

# name rows inner format columns gated
products='
qo 4096 4096 Q4_K 1
kv 1024 4096 Q4_K 1
gate_up 12288 4096 Q4_K 1 --gated
down 4096 12288 Q6_K 1
head 151936 4096 Q6_K 1
plain 4096 12288 Q8_0 1
qo8 4096 4096 Q4_K 8
gate_up8 12288 4096 Q4_K 8 --gated
'
measure() {
    "$zinc" bench kernels "$@" --json --repeats 3 --rotate 512MiB | tr -d '\n'
}
separator='{'
echo "$products" | while read -r name rows inner format columns gated; do
    [ -n "$name" ] || continue
    # shellcheck disable=SC2086
    set -- "$@" --rows "$rows" --inner "$inner" --format "$format" --columns "$columns" $gated
    printf '%s"%s": {"exact": ' "$separator" "$name"
    measure "$@"
    printf ', "dot": '
    measure "$@" --kernel dot --sweep
    printf '}\n'
    separator=','
    # The options of this product go again; those of the device stay.
    [ "$1" = --device ] && { device=$2; set -- --device "$device"; } || set --
done >"$out"
echo '}' >>"$out"
echo "written: $out"
