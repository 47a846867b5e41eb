#!/usr/bin/env bash
# The linear field on one dataset: every ranker's settings by validation after 1,000 rounds, then 5,000 rounds with
# them, 3 seeds each, three click models. Runs that are there already are not run again. Settings are chosen on the folds
# CHOOSE_FOLDS and reported on FOLDS, where the dataset has any.
#
#   CHOOSE_FOLDS=1,2 FOLDS=1,2,3,4,5 scripts/field.sh outputs/field-mq2008 dataset=mq2008
#   scripts/field.sh outputs/field-generated
set -euo pipefail
out=$1
shift
ol2r=${OL2R:-ol2r}
choose=${CHOOSE:-1000} rounds=${ROUNDS:-5000}
common=(replicas=3 "$@")
choose() { # GRID [override ...]: the cells of a grid
  $ol2r run -m "experiment=grid_$1" click=per,nav,inf rounds="$choose" evaluate_every="$choose" 'evaluate_on=[validation]' \
    output_dir="$out/select" ${CHOOSE_FOLDS:+dataset.fold=$CHOOSE_FOLDS} "${common[@]}" "${@:2}" >>"$out/log" 2>&1
}
mkdir -p "$out"
choose pdgd
choose dbgd
choose mgd
choose sgd_ranknet
choose epsilon_greedy
choose pairrank
choose pairrank exploration.shuffle=random
choose pairrank exploration.covariance=diagonal
choose pepairrank ranker.members=2
keep=(--keep exploration.shuffle exploration.covariance)
$ol2r report "$out/select" --select validation "${keep[@]}" --out "$out/select.md" >>"$out/log"
$ol2r report "$out/select" --select validation "${keep[@]}" --overrides | while read -r cell; do
  # shellcheck disable=SC2086 # a cell is several words
  $ol2r run -m $cell rounds="$rounds" output_dir="$out/final" ${FOLDS:+dataset.fold=$FOLDS} "${common[@]}" >>"$out/log" 2>&1 </dev/null
done
$ol2r run -m ranker=random,oracle,offline_ranknet click=per,nav,inf rounds="$rounds" output_dir="$out/final" \
  ${FOLDS:+dataset.fold=$FOLDS} "${common[@]}" >>"$out/log" 2>&1
$ol2r report "$out/final" --out "$out/field.md"
