#!/usr/bin/env bash
# Everything that these results hold, in one go on a machine with a card:
#     bash results/cuda-h200/run.sh target/release/vramlab results/cuda-h200
# A planted fault must be found: there the exit code is 20.
set -uo pipefail
bin=$1 out=$2
traces=traces
mkdir -p "$out"

expect() { # CODE COMMAND...: runs it and holds its exit code against CODE
    local code=$1 got=0
    shift
    echo "\$ vramlab ${*:2}"
    "$@" || got=$?
    if [ "$got" != "$code" ]; then echo "exit code $got, expected $code"; failed=1; fi
}
failed=0

nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv 2>/dev/null
expect 0 "$bin" calibrate --out "$out/h200.toml"
expect 0 "$bin" validate --claims --out "$out/claims"
expect 0 "$bin" validate --claims --whole-card --out "$out/claims-whole-card"
for fault in late shift no-wait short-move; do
    case $fault in
    late) code=0 policy=stream-first-fit ;;
    shift) code=20 policy=first-fit ;;
    no-wait) code=20 policy=stream-first-fit ;;
    short-move) code=20 policy=compaction ;;
    esac
    expect $code "$bin" validate --policies $policy --plant $fault --out "$out/planted/$fault"
done
expect 0 "$bin" validate --out "$out/exercise"
for trace in multi-stream churn-cap detector-train-cap gpt2-varlen; do
    expect 0 "$bin" validate "$traces/$trace.vlt.zst" --out "$out/$trace"
done
exit $failed
