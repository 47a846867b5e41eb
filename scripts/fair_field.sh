#!/usr/bin/env bash
# What fairness of exposure costs, on one dataset with two groups: rankers without it, FairExp with several bounds, and
# FairCo, 3 seeds each, three click models. Runs that are there already are not run again.
#
#   ROUNDS=5000 scripts/fair_field.sh outputs/fair-generated dataset.group_ratio=.95
#   FOLDS=1,2,3,4,5 scripts/fair_field.sh outputs/fair-mq2008 dataset=mq2008 'dataset.group={feature: 40, threshold: 0}'
set -euo pipefail
out=$1
shift
ol2r=${OL2R:-ol2r}
common=(click=per,nav,inf rounds="${ROUNDS:-5000}" replicas=3 ${FOLDS:+dataset.fold=$FOLDS} output_dir="$out" "$@")
field() { # [override ...]
  $ol2r run -m "${common[@]}" "$@" >>"$out/log" 2>&1
}
mkdir -p "$out"
field ranker=pairrank,pdgd,dbgd
field ranker=pairrank fairness=fairexp fairness.epsilon=0.1,1,10
field ranker=ips_regression
field ranker=ips_regression fairness=fairco fairness.gain=0.001,0.01,0.1
$ol2r report "$out" --out "$out/fair_field.md"
