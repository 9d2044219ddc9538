#!/usr/bin/env bash
# Everything that these results hold, in one go on a machine with a card:
#     bash results/cuda-h200/run.sh target/release/vramlab results/cuda-h200
# The card is measured first; what the model charges is what its own table says.
# A planted fault must be found: there the exit code is 20.
set -uo pipefail
bin=$1 out=$2
traces=traces
mkdir -p "$out"

expect() { # CODE COMMAND...: runs it and holds its exit code against CODE
    local code=$1 got=0 since=$SECONDS
    shift
    echo "\$ vramlab ${*:2}"
    "$@" || got=$?
    echo "($((SECONDS - since)) s)"
    if [ "$got" != "$code" ]; then echo "exit code $got, expected $code"; failed=1; fi
}
check() { # CODE FOLDER ARGUMENTS...: a validation by the measured table
    local code=$1 folder=$2
    shift 2
    expect "$code" "$bin" validate "$@" --card "$out/h200.toml" --out "$out/$folder"
}
failed=0

nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv 2>/dev/null
expect 0 "$bin" calibrate --out "$out/h200.toml"

check 0 planted/late --policies stream-first-fit --plant late
check 20 planted/shift --policies first-fit --plant shift
check 20 planted/no-wait --policies stream-first-fit --plant no-wait
check 20 planted/short-move --policies compaction --plant short-move
check 20 planted/page-twice "$traces/churn-cap.vlt.zst" --policies stitching-all --plant page-twice
check 20 planted/lost-page --policies managed --capacity 8MiB --plant lost-page

check 0 exercise
for trace in multi-stream churn-cap detector-train-cap gpt2-varlen; do
    check 0 $trace "$traces/$trace.vlt.zst"
done
# Less than what lives at once: pages go to the host.
check 0 paged/exercise --policies managed,managed-best-fit --capacity 8MiB
check 0 paged/churn-cap "$traces/churn-cap.vlt.zst" --policies managed,managed-best-fit --capacity 2GiB
check 0 paged/gpt2-varlen "$traces/gpt2-varlen.vlt.zst" --policies managed,managed-best-fit --capacity 8GiB

check 0 claims --claims
check 0 claims-whole-card --claims --whole-card
exit $failed
