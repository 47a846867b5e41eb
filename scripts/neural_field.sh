#!/usr/bin/env bash
# Networks against linear rankers on one dataset: a few settings of every ranker, 3 seeds each, perfect and
# informational clicks. Which settings are best is for the validation split to say: see docs/algorithms/neural_field.md.
# Runs that are there already are not run again. Nobody looks at blocks, so that the confidence intervals may prune.
#
#   ROUNDS=2000 scripts/neural_field.sh outputs/neural-generated
#   ROUNDS=2000 scripts/neural_field.sh outputs/neural-mq2008 dataset=mq2008
#   ROUNDS=1000 CLICKS=per scripts/neural_field.sh outputs/neural-clueweb09 dataset=letor dataset.path=../shared/data/ClueWeb09
set -euo pipefail
out=$1
shift
ol2r=${OL2R:-ol2r}
common=(rounds="${ROUNDS:-5000}" replicas=3 evaluate_every=200 trace_blocks=false output_dir="$out" "$@")
field() { # [override ...]: all cells with these users
  $ol2r run -m click="${CLICKS:-per,inf}" "${common[@]}" "$@" >>"$out/log" 2>&1
}
mkdir -p "$out"
field ranker=pairrank ranker.l2=0.1 exploration.alpha=0.1
field ranker=pairrank ranker.l2=1,10,30 exploration.alpha=0.03
field ranker=pdgd ranker/model=mlp ranker.learning_rate=0.1,0.03
field ranker=olranknet exploration.alpha=0.03 ranker.l2=0.003,0.01,0.03
field ranker=olranknet exploration.alpha=0.01 ranker.l2=0.003,0.01
field ranker=ollambdarank exploration.alpha=0.03 ranker.l2=0.0003,0.001 ranker.learning_rate=1.0,3.0
field ranker=olranknet exploration.covariance=full exploration.precision=float32 exploration.alpha=0.002,0.005 ranker.l2=0.01,0.03
field ranker=p2neurrank ranker.label_noise_variance=0.1,0.01 ranker.l2=0.003,0.01,0.03
field ranker=p2neurrank ranker.members=5,10 ranker.label_noise_variance=0.01 ranker.l2=0.01,0.03
$ol2r report "$out" --select validation --keep exploration.covariance ranker.members ranker.label_noise_variance --out "$out/neural_field.md"
