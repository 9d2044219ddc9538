#!/usr/bin/env bash
# An experiment as an array of Slurm jobs, one a shard:
#
#     export EXPERIMENT=experiments/padding.toml OUT=vramlab-out/padding
#     id=$(sbatch --parsable --array=1-8 experiments/cluster/slurm.sh)
#     sbatch --dependency=afterok:$id --wrap 'vramlab merge "$OUT"/shards/* --out "$OUT"'
#
# A job that is requeued goes on where it was cut off.
#SBATCH --job-name=vramlab
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail

: "${EXPERIMENT:?set it to the experiment file}"
: "${OUT:?set it to the folder for results}"

exec "${VRAMLAB:-vramlab}" run "$EXPERIMENT" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --jobs "${SLURM_CPUS_PER_TASK:-1}" \
    --resume \
    --out "$OUT/shards/$SLURM_ARRAY_TASK_ID"
