#!/usr/bin/env bash
# Networks against linear rankers on one dataset, with default settings where nothing else is said: 5 seeds each, three
# click models: the first tables of docs/algorithms/neural_field.md. Runs that are there already are not run
# again. Nobody looks at blocks, so that the confidence intervals may prune.
#
#   scripts/neural_field.sh outputs/neural-generated dataset.seed=1
#   scripts/neural_field.sh outputs/neural-mq2008 dataset=letor dataset.path=../shared/data/MQ2008 dataset.fold=1,2,3,4,5
set -euo pipefail
out=$1
shift
ol2r=${OL2R:-ol2r}
common=(rounds="${ROUNDS:-5000}" replicas=5 seed="${SEED:-100}" evaluate_every=500 trace_blocks=false output_dir="$out" "$@")
field() { # [override ...]: all cells with these users
  $ol2r run -m click="${CLICKS:-per,nav,inf}" "${common[@]}" "$@" >>"$out/log" 2>&1
}
mkdir -p "$out"
field ranker=pairrank ranker.l2=10,30 exploration.alpha=0.03
field ranker=olranknet
field ranker=p2neurrank
field ranker=ollambdarank
$ol2r report "$out" --select validation --out "$out/neural_field.md"
$ol2r report "$out" --baseline pairrank --select validation --out "$out/comparison.md"
