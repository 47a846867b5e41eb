"""A mistake on the command line gives one line that says what to type, and nothing is written."""

from __future__ import annotations

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.config.composer import compose
from tests.finished import refused

# What is typed, and words of the line that answers; $ is its end.
MISTAKES = r"""
rankr=x | no setting or group 'rankr' | did you mean ranker?
regret=true | no setting or group 'regret': type 'measures=[ndcg,regret]'$
ronds=3 | no setting or group 'ronds' | did you mean rounds?
qwxyz=3 | no setting or group 'qwxyz': `ol2r list run` shows settings, `ol2r list` groups$
ranker=pairnk | ranker=pairnk: did you mean ranker=pairrank?$
ranker=qwxyz | ranker must be one of batchrank, | oracle
ranker=PDGD | ranker=PDGD: did you mean ranker=pdgd?
click=nav click.clik=1 | click=navigational has no setting 'clik' | did you mean click.click?
ranker=oracle ranker.l2=1 | ranker=oracle has no setting 'l2': type ranker=CHOICE too, of | pairrank
dataset.queries.tran=3 | no setting 'queries.tran' | did you mean dataset.queries.train?
+ranker.foo=1 | PairwiseRanker has no setting 'foo' | it has l2,
+ranker=oracle | type ranker=oracle | without +
~rounds | rounds is missing | leave out ~rounds
~ranker.l2 | ranker.l2 is missing | type ranker.l2=VALUE
~rounds rounds=3 | rounds cannot be left out: type no ~rounds
ranker/model=mlp | ranker=pairrank has no model: | choose one of coltr, | sgd_ranknet$
ranker.model.width=16 | ranker=pairrank has no model:
~ranker/model | ranker=pairrank has no model:
+ranker/model=mlp | PairwiseRanker has no setting 'model'
ranker=pdgd ranker/modl=mlp | no setting or group 'ranker/modl' | did you mean ranker/model?
ranker=pdgd ranker/model=mpl | model=mpl: did you mean ranker/model=mlp?$
ranker=pdgd ranker.model.width=16 | no setting 'width': type ranker/model=CHOICE too, of mlp, mlp1$
ranker=pdgd ranker.model=mlp | ranker.model must be chosen: type ranker/model=CHOICE, | got 'mlp'$
ranker=pdgd +ranker/model=mlp | type ranker/model=mlp | without +
ranker=pdgd ranker/model=mlp ~ranker.model.width | ranker.model.width is missing: MLP needs it
device=gpu | device=gpu: did you mean device=cuda?
clicks=perfect | no setting or group 'clicks': did you mean click?$
seeds=5 | no setting or group 'seeds': type replicas=5$
cutoff=20 | type 'measures=[ndcg@20]'$
alpha=.1 | type exploration.alpha=.1$
ranker=pdgd lr=.1 | type ranker.learning_rate=.1$
ranker=pdgd ranker.eta=.1 | ranker=pdgd has no setting 'eta': did you mean ranker.learning_rate?$
eta=.1 | type ranker.learning_rate=.1 and ranker=CHOICE, of | dbgd,
fold=2 | type dataset.fold=2 and dataset=CHOICE, of | mq2008
ranker.alpha=.1 | ranker=pairrank has no setting 'alpha': type exploration.alpha=..$
queries=5 | type dataset.queries=5 and dataset=CHOICE, of
--rounds 100 | there is no option --rounds: type rounds=100$
rounds = 100 seed=3 | rounds = 100 has blanks, which separate words: type rounds=100$
rounds= 100 | rounds= 100 has blanks | type rounds=100$
rounds =100 | rounds =100 has blanks | type rounds=100$
-m seed=1, 2 | seed=1, 2 has blanks | type seed=1,2$
-m ranker=pdgd, pairrank rounds=3 | ranker=pdgd, pairrank has blanks, which separate words: type ranker=pdgd,pairrank$
-m ranker=pdgd ,pairrank, dbgd | type ranker=pdgd,pairrank,dbgd$
-m ranker=pdgd, | ranker=pdgd, ends in a comma: leave it out$
-m seed=range(1, 3) | type 'seed=range(1,3)'$
measures=[ndcg, ctr] | type 'measures=[ndcg,ctr]'$
dataset.group={feature: 3, threshold: 1} | type 'dataset.group={feature:3,threshold:1}'$
help | help is an option: type ol2r run --help
“rounds=3” | has quotes of typography
measures=‘[ndcg]’ | has quotes of typography
–m seed=1,2 | –m has a hyphen of typography: type -m$
‐‐json | ‐‐json has a hyphen of typography: type --json$
—dry‑run | —dry‑run has a hyphen of typography: type --dry-run$
dataset=mq2008 dataset.fold=all | dataset.fold=all is no number: type -m dataset.fold=1,2,3,4,5
rounds=1e3 | rounds must be a whole number, got 1000.0: type rounds=1000$
ranker=pdgd ranker/model=mlp ranker.model.width=16.0 | got 16.0: type ranker.model.width=16$
dataset=mq2008 dataset.group={feature:3} | as in 'dataset.group={feature: 3, threshold: 0.5}', got {'feature': 3}$
dataset=mq2008 dataset.group=feature:3 | group must be null or settings in quotes, '{name: value, ..}', got 'feature:3'
rounds=abc | rounds must be a whole number, got 'abc'
ranker.l2=-1 | ranker.l2 must be above 0, got -1
exploration.shuffle=x | exploration.shuffle must be one of conservative, random, got 'x'
click.click=[1,2] | click.click must be null or a list | from 0 to 1, got [1, 2]
exploration.alpha=${nope} | exploration.alpha cannot be resolved | 'nope'
ranker._target_=nowhere.X | ranker._target_ must be a class that can be imported, got nowhere.X
click=nan | click must be one of almost_random, | got 'nan'
ranker=[oracle,random] | ranker must be one of | got '[oracle,random]'
-m experiment=[null] seed=1,2 | experiment must be one of | got '[null]'
fairness._target_=ol2r_cli.exploration.order.PlackettLuce | must be a class that is ol2r_cli.interfaces.Fairness
ranker=oracle ranker._target_=builtins.dict | ranker._target_ must be a class whose settings have names, got dict
fairness={x:2} | fairness=none has no setting 'x': it has none
~ | '~' must be SETTING=VALUE or GROUP=CHOICE
fairness._target_=os.getpid | fairness._target_ must be a class that is | got builtins.int
ranker=dbgd ranker.model._target_=ol2r_cli.ranker.model_ranker.OracleRanker | with the methods size, | got Oracle
click.tables.5.stop=[1] | click.tables.5.stop cannot be set alone: type 'click.tables={..}' with all that is in it$
ranker=olranknet ranker.steps=9223372036854775807 | ranker.steps must be from 1 to 100000, got 9223372036854775
exploration.alpha=1e300 | exploration.alpha must be from 0 to 1e+100 or theory, got 1e+300
ranker._target_=abc | ranker._target_ must be a class that can be imported, got abc, which is a module
seed=99999999999999999999 | seed must be within 64 bits | got 99999999999999999999
rounds=10000000000000 | rounds=10000000000000, replicas=1, positions=10 need more memory than there is (
dataset.queries.train=2147483648 | dataset.queries, dataset.documents and dataset.features must be smaller
--bogus | there is no option --bogus | `ol2r run --help`
--resolve | add --cfg job
--keep-going | --keep-going is for several runs: add -m
--paired a,b | --paired is for several runs: add -m
-m --paired a | --paired a: there is no a=.. in this sweep$
-m hydra/launcher=joblib | hydra/launcher=joblib has no effect: leave it out | launcher=..
-m seed=1,2 hydra.sweep.dir=x | hydra.sweep.dir=x has no effect: leave it out | output_dir=DIR
++hydra.job.name=x | ++hydra.job.name=x has no effect: leave it out
-m seed=1,2 seed=3,4 | seed is typed twice, seed=1,2 and seed=3,4: type all its values at once, or leave one out$
-m seed=1,2 rounds=3 +seed=7 | seed is typed twice, seed=1,2 and +seed=7
note=${x} | note cannot be resolved: | for the text itself type 'note=\${x}'$
output_dir=a/${x} | output_dir cannot be resolved: | for the text itself type 'output_dir=a/\${x}'$
dataset.path=/x | dataset=synthetic has no setting 'path': type dataset=CHOICE too, of | letor | mq2008
ranker.learnin=.1 | ranker=pairrank has no setting 'learnin': it has l2,
seed=0-4 | seed=0-4 is no number: type -m 'seed=range(0,5)' for runs with each of 0 to 4$
-m seed=1..5 | seed=1..5 is no number: type -m 'seed=range(1,6)' for
-m seed=range(0-3) | seed=range(0-3) is no number: type -m 'seed=range(0,4)' for runs with each of 0 to 3$
ranker==pdgd | 'ranker==pdgd' must be SETTING=VALUE
rounds=5,000 | rounds=5,000 is several runs: add -m, or where one list is meant type 'rounds=[5,000]'$
ranker=pdgd,dbgd | ranker=pdgd,dbgd is several runs: add -m$
dataset=mslr | dataset=mslr: did you mean dataset=mslr_web10k or dataset=mslr_web30k?$
-m seed=0,1 ranker=offline | did you mean ranker=offline_lambdamart, ranker=offline_network or ranker=offline_ranknet?
--config-name other | there is no option --config-name: type experiment=NAME, a file experiment/NAME.yaml
--config-name=other | there is no option --config-name=other: type experiment=NAME
--config-path x | there is no option --config-path: type --config-dir DIR
-json | there is no option -json: did you mean --json?$
device=cuda:1 | got cuda:1: type device=cuda, and CUDA_VISIBLE_DEVICES=1 before ol2r | 'launcher.gpus=[1]'$
-m --paired seed,seed seed=1,2 | --paired may name seed once: type --paired with all that go together$
--multrun | there is no option --multrun | did you mean --multirun?
--cfg jbo | argument --cfg | jbo | choose from | job
-m seed=range(3,0) | seed=range(3,0) has no values: type range(3,0,-1)$
-m seed=range(0,3 | seed=range(0,3 | as many closing as opening brackets
rounds | 'rounds' must be SETTING=VALUE or GROUP=CHOICE
dataset.path=~/MQ2008 | write $HOME instead of ~, type dataset.path=$HOME/MQ2008$
output_dir=a~b | output_dir=a~b cannot be read | type 'output_dir="a~b"'$
seed=1,2 | seed=1,2 is several runs: add -m
-m ranker.l2=1,-1 | ranker.l2 must be above 0, got -1 (#1 ranker.l2=-1); nothing
-m seed=0,1 launcher.jobs=0 | launcher.jobs must be auto or 1 or more, got 0
-m seed=0,1 launcher.timeout=0 | launcher.timeout must be null or above 0, got 0
-m seed=0,1 launcher.jbs=1 | 'jbs': did you mean launcher.jobs?
-m seed=0,1 launcher=proceses | launcher=proceses: did you mean launcher=processes?
-m launcher.jobs=1,2 | launcher must be the same for all jobs of a sweep
-m seed=0,1 output_dir=/dev/null/below | output_dir must be a folder that can be used, got /dev/null/below (Not a direc
-m ranker=pairrank,pairnk | did you mean ranker=pairrank?
evaluate_on=test,validation | add -m, or where one list is meant type 'evaluate_on=[test,validation]'$
experiment=grid_pairrank | a grid | differ in ranker.l2, exploration.alpha: add -m$
dataset=letor | dataset.path=FOLDER | dataset=synthetic
dataset.path=/nowhere dataset=mq2008 | dataset.path must be a folder | looked for: /nowhere
--config-dir /nowhere | --config-dir must be a folder, got /nowhere, which does not exist
output_dir=/dev/null rounds=1 | output_dir (/dev/null) | must be folders that can be used
measures=[ndgc] | measures ndgc: did you mean ndcg?$
measures=[qwxyz] | measures must be one of amortised_unfairness, | got 'qwxyz'$
measures=[err@0] | measures must have a whole number above 0 behind @, as in err@5, got 'err@0'$
measures=[ctr@5] | measures must have ctr without a number, got 'ctr@5': it has no cutoff$
measures=[err,err] | measures must have each name once, got 'err' twice$
measures=ndcg | measures must be a list of names, such as [ndcg,err@5], got 'ndcg'$
measure=err | measures are chosen by a list: type 'measures=[ndcg,err]'$
measure=ndcg | measures are chosen by a list: type 'measures=[ndcg]'$
measure.err.cutoff=5 | must be a setting of a measure in [ndcg,blocks,unfairness] | type 'measures=[ndcg,err@5]'
measure.ndcg=1 | or a setting as in measure.ndcg.discount=1$
"""


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("mistake", MISTAKES.split("\n")[1:-1], ids=lambda mistake: mistake.partition(" | ")[0])
def test_a_mistake_is_one_line_and_writes_nothing(mistake, tmp_path, capsys):
    line, *answer = mistake.split(" | ")
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    said = captured.err.removeprefix("compiling loops, once in this environment\n")  # of a valid run that cannot write
    assert (captured.out, said.count("\n")) == ("", 1), captured
    assert said.startswith("ol2r run: ")
    for words in answer:
        assert words.removesuffix("$") in said
        assert not words.endswith("$") or said.endswith(f"{words[:-1]}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["ranker=a\nb", "ranker.l2=a\nb", "rounds=\n", "a\nb=1"])
def test_a_line_break_is_shown_in_one_line(capsys, word):
    refused(capsys, "run", word, "dataset=mq2008")


def test_several_settings_in_one_word_are_told(capsys):
    told = "'rounds=10 ranker=pdgd' is several settings: leave out the quotes around them"
    assert refused(capsys, "run", "rounds=10 ranker=pdgd", "seed=3") == told
    note = "it's 1, as seed=3"
    assert compose(["dataset.queries={train: 9, test: 3}", f"note={note}"]).settings["note"] == note


def test_grids_of_two_rankers_are_told_to_be_swept_one_by_one(tmp_path, capsys):
    assert main(["-m", "experiment=grid_dbgd,grid_mgd"]) == 2
    assert capsys.readouterr().err.count("learning_rate: sweep one grid at a time (#") == 2
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["device=cuda"]) == 2
    assert "use device=cpu" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_the_program_shows_where(capsys, monkeypatch):
    def fails(*_: object, **__: object):
        raise RuntimeError("a slip")

    monkeypatch.setattr("ol2r_cli.run.experiment.Experiment", fails)
    assert main([]) == 1
    err = capsys.readouterr().err
    assert "in fails" in err
    assert "RuntimeError: a slip" in err
