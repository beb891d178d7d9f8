"""What a command refuses before anything starts: exit code, words, and what it says; no file is changed."""

import re
import shlex

import pytest

SHORT = {
    "NINES": "9" * 5000,
    "LONG": "a" * 300,
    "A240": "a" * 240,
    "A42": "a" * 42,
    "WORKERS": "train --data=showers.h5 --strategy=multiworker --workers=2",
    "TIMES": "--step-seconds=0.05 --service-seconds=0.0025 --message-seconds=0.0005",
    "K8S": "--provider=kubernetes --store=gs://lab/cloudgan",
    "SLURM": "--provider=slurm --preset=smoke --name=gan",
    "OFFER": "gcp/n1-standard-64+8xV100/us-central1/spot",
    "PODS": "--provider=kubernetes --store=s3://lab/x --image=lab/gan:1",
    "H100": "--provider=gcp --region=us-central1 --accelerator=a3-highgpu-8g",
    "V100": "--provider=gcp --accelerator=v100:8",
    "STORE": "--store=s3://lab/gan",
    "TPUS": "--provider=gcp --region=us-central1 --allow-unknown-price",
    "TWO_HOURS": "--preset=paper --epochs=60 --max-hours=2",
    "SEARCH": "search space.yaml --data=x.h5",
    "BOTH": "--generated=g.h5 --reference=r.h5",
    "TRAIN": "train --data=x.h5 --preset=mini",
}
"""What stands for long words in the cases."""
CASES = r"""
# Plans for a cluster and for this machine
2 | plan K8S --name=My_Run | --name=my-run would do
2 | plan K8S --context=labs | Did you mean 'lab'
2 | plan K8S --namespace=a/../b | --namespace=a/../b is not valid
2 | plan K8S --budget-usd=5 | --price-as=
2 | plan K8S --price-as=gcp/v3-8/us-central1/spots | unknown offer
2 | plan K8S --accelerator=t4:8 --price-as=OFFER | --accelerator=t4:8 was given; they must agree
2 | plan K8S --accelerator=v100 --price-as=OFFER | has 8 x V100
2 | plan K8S --accelerator=tpu-v5e:4 | NVIDIA GPUs only
2 | plan --provider=kubernetes --store=results | is not reachable from pods
2 | plan --provider=kubernetes --store=pvc: | is not reachable from pods
2 | plan --provider=kubernetes --store=gcs://lab/x | is not reachable from pods
2 | plan --provider=kubernetes --store=pvc:results | give an --image that has cloudgan
2 | plan K8S --data=s3://lab/data | different clouds
2 | plan K8S --data=ftp://lab/data | unknown store type 'ftp' in 'ftp://lab/data'
2 | plan K8S --data=s3:// | names no bucket
2 | plan K8S --data=pvc:data | volume claim
2 | plan K8S --data=nowhere.h5 | nowhere.h5
2 | plan K8S --until=metrik<1 | Did you mean 'metric'
2 | plan K8S --batch=8 --global-batch=8 | exclude each other
2 | plan --image=x --kubernetes-secrets=y | --image and --kubernetes-secrets: only valid with --provider=kubernetes
2 | plan --image-pull-secret=x | --image-pull-secret: only valid with --provider=kubernetes
2 | plan --queue=team | are not valid with --provider=local
2 | plan --store=pvc:x | are not valid with --provider=local
2 | plan --output=made | give --provider=kubernetes
2 | plan --provider=kubernets | Did you mean 'kubernetes'
6 | plan K8S --accelerator=v100:8 --price-as=OFFER --budget-usd=5 | 60 epochs cost at least
6 | plan K8S --accelerator=v100:8 --price-as=OFFER --budget-usd=0.01 | leaves no time to train
2 | plan --accelerator=:8 | such as v100 or v100:8
2 | plan --accelerator=v100: | such as v100 or v100:8
2 | plan --accelerator=v100:0 | such as v100 or v100:8
2 | plan --accelerator=v100:-1 | such as v100 or v100:8
2 | plan --accelerator=v100:x | such as v100 or v100:8
2 | plan --accelerator=v100:8:2 | such as v100 or v100:8
2 | plan --node-selector=pool | write label=value, separated by commas
2 | plan --node-selector==gpu | write label=value, separated by commas
2 | plan --node-selector=pool=gpu,disk | write label=value, separated by commas
2 | plan --gang-timeout=20 | --gang-timeout takes a time such as
# Slurm
2 | plan SLURM | --store=FOLDER
2 | plan SLURM --store=pvc:claim | --store=FOLDER
2 | plan SLURM --store=. | keeps the local copies
2 | plan SLURM --store=shared --image=x | --provider=slurm was given
2 | plan SLURM --store=shared '--account=a\nb' | --account=
2 | plan SLURM --store=shared '--qos=a b' | --qos=a b must be a name of the cluster
2 | plan SLURM --store=shared '--constraint=$(id)' | --constraint=$(id) must be
2 | plan SLURM --store=shared --reservation=--wrap=id | --reservation=--wrap=id must be
2 | plan SLURM --store=shared --prologue=missing.sh | missing.sh
2 | plan SLURM --store=shared --prologue=control.sh | without control characters
2 | plan --account=hep --qos=gpu | --account and --qos: only valid with --provider=slurm
# Files of a plan that do not exist or would hold a secret
2 | plan --provider=local --output=made | give --provider=kubernetes or --provider=slurm, not local
2 | plan --provider=gcp --accelerator=t4:1 --preset=smoke --output=made | give --provider=kubernetes or --provider=slurm, not gcp
2 | plan --provider=kubernetes --store=s3://lab/x --secret=LAB_LOGIN --output=made | --output would write the value of LAB_LOGIN to a file
2 | plan --provider=slurm --store=x --secret=LAB_MISSING --preset=smoke --output=made | --secret=LAB_MISSING: LAB_MISSING is not set
# TPU slices
5 | plan --provider=gcp --epochs=5 --accelerator=tpu7x:8 | cloudgan cannot train on tpu
5 | plan --provider=gcp --epochs=5 --accelerator=tpu-v7:4 | --accelerator=tpu-v6e:8
5 | plan --provider=gcp --epochs=5 --accelerator=tpu7x | --accelerator=tpu-v6e:8
5 | plan --provider=gcp --epochs=5 --accelerator=tpu-v3:4 --nodes=2 | a TPU slice is one node
# Reservations
2 | plan --reservation=week --market=spot H100 | --market=spot would start nodes outside of --reservation=week
2 | plan --reservation=week --flex-start H100 | --flex-start would start
2 | plan --reservation=week --fallback=same H100 | --fallback=same would start
2 | plan --reservation=week --keep-nodes=30m H100 | omit --keep-nodes, since the reservation keeps the capacity
2 | plan --reservation=week --provider=gcp --accelerator=h100:8 | give --region or --zone
2 | plan --reservation=week --provider=gcp --region=us-central1 | give --provider and --accelerator
2 | plan --reservation=week --provider=cheapest --region=us-central1 --accelerator=a3-highgpu-8g | give --provider and --accelerator
2 | plan --reservation=week --provider=local | --reservation: only valid with --provider=aws, azure, gcp or slurm
2 | plan --reservation=Week H100 | projects/OWNER/reservations/NAME
# Nodes that no offer is
2 | plan --provider=kubernetes --store=gs://x/y --market=on_demand | --market: only valid with
2 | plan --nodes=auto | --nodes=auto is only valid with
2 | plan --provider=gcp --context=lab | only valid with an existing cluster
2 | plan --provider=cheapest --store=gs://x/y | --store is in one cloud
2 | plan --provider=cheapest --project=lab | belong to one cloud
5 | plan --provider=gcp --region=us-centrall | no price is known for
5 | plan --provider=gcp --region=us-east-1 | in us-east-1. Did you mean 'us-east1'?
2 | plan --provider=gcp --region=us-east1 --zone=us-west1-a | --zone=us-west1-a is not in --region=us-east1; give --region=us-west1
2 | plan --provider=gcp --accelerator=v200 | unknown accelerator 'v200'
2 | plan --provider=gcp --accelerator=v3-8:8 | a v3-8 has 4 x TPU-v3
2 | plan --provider=aws --price-as=gcp/v3-8/us-central1/spot | --provider=aws was given
2 | plan --provider=aws --internal-ips | only valid with --provider=
2 | plan --provider=slurm --internal-ips | only valid with --provider=
2 | plan --provider=gcp --subnet=gpus | give --network
2 | plan --provider=gcp --network=a/b | lab-net
5 | plan V100 --zone=asia-east1-c | no price is known for v100:8 on gcp in asia-east1
5 | plan V100 --region=asia-east1 | no price is known for v100:8 on gcp in asia-east1
5 | plan --provider=gcp --accelerator=v100 --nodes=auto --max-hours=0.1 | no offer is certain to finish the job within 0.1 h: the fastest takes
6 | plan --provider=gcp --accelerator=l4 --nodes=auto --budget-usd=5 --data=gs://bucket/showers | The paper's 124,987 showers are assumed, since those of gs://bucket/showers are not counted here: give --nodes=N
5 | plan V100 --max-usd-per-hour=5 | USD per hour exceeds --max-usd-per-hour=5
2 | plan V100 --keep-nodes=30 | did you mean 30h?
2 | plan V100 --keep-nodes=2d | nodes wait at most 12h
2 | plan V100 --keep-nodes=30m --flex-start | omit one of them
2 | plan --provider=kubernetes --keep-nodes=30m | --keep-nodes: only valid with --provider=
5 | plan --provider=aws --accelerator=l4:2 | Nodes of aws have 1, 4 or 8 x l4; the nearest: --accelerator=l4:1.
2 | offers --accelerator=l4:abc | must be NAME or NAME:COUNT, such as v100 or v100:8
2 | prices --accelerator=l4:0 | must be NAME or NAME:COUNT, such as v100 or v100:8
5 | offers --provider=aws --accelerator=l4:2 | Nodes of aws have 1, 4 or 8 x l4; the nearest: --accelerator=l4:1.
# Limits that the forecast exceeds
5 | plan --provider=cheapest --nodes=auto TWO_HOURS --budget-usd=40 --global-batch=64 | smallest change that fits: +
6 | plan --provider=cheapest --nodes=auto TWO_HOURS --budget-usd=10 | USD budget (--budget-usd=
5 | plan --provider=gcp --nodes=1 TWO_HOURS --budget-usd=400 --accelerator=v100:8 | ends the run after 2 h
6 | plan --provider=gcp --nodes=1 --preset=paper --epochs=60 --max-hours=90 --budget-usd=20 --accelerator=v100:1 | more than the remaining 20
# Grids of cells
2 | plan PODS -- evolve --grid=2x2 --task=ring --max-steps=5 | unknown flag of `cloudgan deploy -- evolve` '--max-steps
2 | plan PODS -- evolve --grid=2x2 --task=ring --parallel=easgd | unknown flag of `cloudgan deploy -- evolve` '--parallel
2 | plan PODS --nodes=6 -- evolve --grid=2x2 --task=ring | --nodes=6 are more than the 5 ranks of a grid of 2x2
2 | plan PODS -- evolve --grid=2x2 --task=ring --data=x.h5 | --data=x.h5: on nodes the task ring has no data
2 | plan PODS -- evolve --grid=1x1 --task=ring | a grid of 1x1 has no neighbours
2 | plan PODS -- evolve --grid=2x2 --task=ring --tournament=9 | --tournament=9 is larger
2 | plan PODS -- evolve --grid=2y --task=ring | expected ROWSxCOLUMNS
2 | plan PODS --seeds=1,2 -- evolve --grid=2x2 --task=ring | --seeds compares trainings of one GAN
2 | plan PODS -- evolve --grid=2x2 --task=ring --losses=bce,huristic | Did you mean 'heuristic'?
2 | deploy --yes --provider=local -- evolve --grid=2x2 --task=ring | --provider=local with one node starts no ranks
2 | deploy --yes PODS -- evolve --grid=2x2 --task=showers | --data is missing
# Simulations
2 | plan -- simulate --showers=0 | --showers=0: expected at least 1
2 | plan -- simulate --energy=0.1:5 | energy_gev
2 | plan -- simulate --energy=50:10 | low exceeds high
2 | plan --accelerator=v100:8 -- simulate | --accelerator=v100:8: the job simulate computes on CPU cores
2 | plan -- simulate --epochs=3 | unknown flag of `cloudgan deploy -- simulate` '--epochs
2 | plan --seeds=1,2 -- simulate | a simulation has one --seed
2 | plan -- simulate --data=x.h5 | unknown flag of `cloudgan deploy -- simulate` '--data
2 | plan --provider=gcp -- simulate | --provider=kubernetes --context=NAME
2 | plan --provider=cheapest -- simulate | only nodes with accelerators
2 | plan --provider=kubernetes --store=s3://lab/x -- simulate | needs --image=IMAGE
2 | plan --price-as=gcp/n1-standard-8+1xT4/us-central1/spot -- simulate | in a --price-file
# Ranks
2 | TRAIN --parallel=gem --ranks=6 --group=2 | use --ranks=5 or --ranks=7
2 | TRAIN --parallel=gem --ranks=4 --masters=2 | use --ranks=5 or --masters=1
2 | TRAIN --parallel=gem --ranks=3 --master-sync-every=2 | give --masters=2 or more
2 | TRAIN --parallel=gem | give --ranks=3, or start
2 | TRAIN --parallel=easgd --ranks=3 --elastic-force=2 | outside of (0, 2)
2 | TRAIN --parallel=easgd --ranks=3 --elastic-force=0 | outside of (0, 2)
2 | TRAIN --parallel=gem --ranks=3 --loop=fit | use loop custom
2 | TRAIN --parallel=gem --ranks=3 --strategy=tpu | strategy is 'tpu'
2 | TRAIN --ranks=3 | ranks is an option of mode
2 | TRAIN --stages=conv33 | Did you mean 'conv3'?
# Searches
2 | deploy -- join lr | the blocks of a search need its store
2 | deploy --store=pvc:lab --provider=kubernetes --image=x/y:1 -- join lr | the blocks of a search need its store
2 | deploy --store=st -- join Not_A_Name | Not_A_Name is no name of a search
2 | deploy STORE --epochs=3 -- join lr | before --: flags of the run stand behind it
2 | deploy STORE -- join lr --epochs=3 | unknown flag of `cloudgan deploy -- join`
2 | deploy STORE -- join | `cloudgan deploy -- join` needs NAME
2 | deploy STORE -- joyn lr | Did you mean 'join'?
2 | deploy STORE --seeds=1,2 -- join lr | omit --seeds
2 | plan simulate.yaml --epochs=5 | flags of the run stand behind it
2 | train --config=join.yaml | cloudgan deploy -- join lr
2 | deploy STORE --config=join.yaml -- join lr | before --: flags of the run stand behind it
2 | deploy STORE --provider=gcp -- join lr | its blocks need nodes that exist
2 | deploy --provider=kubernetes --yes -- search space.yaml x.h5 | needs a store
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml x.h5 --show | start no search
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml x.h5 --store=there | --store stands before --
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml x.h5 --max-hours=1 | is of this machine
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml x.h5 --blocks=2 | --blocks=2 are of this
2 | deploy --provider=kubernetes --yes STORE --detach -- search space.yaml x.h5 | follows the search
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml x.h5 | x.h5 does not exist
2 | deploy --provider=kubernetes --yes STORE -- crossvalidate x.h5 | x.h5 does not exist
2 | deploy --provider=kubernetes --yes STORE -- crossvalidate --show=runs/cv | starts nothing
2 | deploy --provider=kubernetes --yes STORE -- search space.yaml --trails=3 | Did you mean '--trials'?
2 | SEARCH --preset=smoke --store=st --blocks=2 | cloudgan deploy --nodes=N -- join search
2 | SEARCH --preset=smoke --store=pvc:lab | only pods reach a volume claim
2 | SEARCH --preset=smoke --store=ftp://x | unknown store type 'ftp'
2 | SEARCH --preset=smoke --store=st --run=runs/Big | --run names the search in the store
2 | SEARCH --preset=smoke --parallel=downpour | --parallel=downpour in a search needs --ranks=N, such as --ranks=3
2 | SEARCH --preset=smoke --store=st --parallel=downpour --ranks=3 --group=3 | use --ranks=4
2 | deploy STORE --provider=local -- join lr --parallel=easgd | cannot copy checkpoints to
5 | plan TPUS --accelerator=ct5lp-hightpu-4t --nodes=3 -- train --engine=jax | where N is 1 (2x2), 2 (2x4), 4 (4x4)
5 | plan TPUS --accelerator=ct6e-standard-8t --nodes=2 -- train --engine=jax | where N is 1 (2x4)
5 | plan TPUS --accelerator=ct5p-hightpu-4t -- train | TPU nodes of GKE train with JAX only
2 | deploy STORE -- join lr --engine=jax --parallel=easgd | --engine=jax does not support --parallel=easgd
2 | SEARCH --config=two.yaml --store=st | --workers=2 with --store is not built
2 | SEARCH --config=warm.yaml --store=st | is a folder of this machine, which pods cannot read
2 | search . | without search.json
2 | search . --show | is not the folder of a run
2 | SEARCH --preset=smoke --store=st --describe --like=one | forecasts blocks of this machine
2 | SEARCH --blocks=4096 | this machine has
2 | SEARCH --objective=mertic | none of metric, response
2 | crossvalidate --objective=mertic --data=x.h5 | none of metric, response
2 | crossvalidate --folds=101 --data=x.h5 | --folds
2 | SEARCH | x.h5 does not exist
2 | crossvalidate --data=x.h5 | x.h5 does not exist
2 | plan --provider=gcp --data=x.h5 | x.h5 does not exist; `cloudgan simulate x.h5` makes showers to try
2 | SEARCH --second=usd | has one; give --sampler=nsgaii or --sampler=random
2 | SEARCH --second=usd --sampler=random | needs the price of this machine
2 | SEARCH --second=seconds --sampler=random --prune=median | compares one obj
2 | SEARCH --second=usd --sampler=random --price-as=gcp/n1 | unknown offer
2 | SEARCH --price-file=prices.yaml | needs --price-as
2 | compare runs/a --paper | omit the runs, or --paper
2 | SEARCH --budget-usd=5 | --budget-usd=5 needs the price of this machine
2 | SEARCH --max-hours=2 --store=there | --max-hours=2 is of this machine
2 | SEARCH --max-hours=2 --describe | --describe starts none
2 | SEARCH --like=one | only valid with --describe
2 | search weights.yaml --objective=generator_loss --data=x.h5 | different model.loss_weights.shape
# Offers and prices
2 | offers --accelerator=H1000 | Did you mean 'H100'?
2 | offers --provider=gpc | Did you mean 'gcp'?
2 | offers --region=us-centrall1 | Did you mean 'us-central1'?
2 | offers --market=spott | Did you mean 'spot'?
2 | offers --max-hours=2 | such as --epochs=60
2 | offers --restart-seconds=5 --losses-per-node-hour=5 | --losses-per-node-hour and --restart-seconds: the prices of an epoch have no preemptions; give the length of a job, such as --epochs=60
2 | offers --epochs=60 --carbon | --carbon ranks the emissions of one epoch; omit --epochs
2 | offers --run=nowhere | there is no run nowhere
5 | offers --accelerator=TPU-v3 --provider=aws | no current price matches aws TPU-v3
5 | offers --provider=gcp --region=us-east-1 | Did you mean 'us-east1'?
5 | offers --accelerator=h100 --measured | measured: TPU-v2, TPU-v3, V100
2 | prices refesh | Did you mean 'refresh'
2 | prices --accelerator=h10 | Did you mean
2 | prices --region=us-eats1 | Did you mean 'us-east1'
# Showers
2 | simulate a.h5 --energy=100:10 | --energy
2 | simulate a.h5 --energy=ten | --energy
2 | simulate a.h5 --engine=geant5 | gflash
2 | simulate a.h5 --particle=photon | --particle=photon needs --engine=geant4
2 | demo --run=run --data=nowhere.h5 | nowhere.h5
2 | simulate a.h5 --workers=2 | --engine=geant4
2 | simulate a.h5 --engine=geant4 --energy=0.1:5 | valid range: 1 to 1000 GeV
2 | simulate a.h5 --engine=geant4 --theta=10:60 | valid range: 45 to 135 degrees
2 | simulate a.h5 --engine=geant4 --cut-mm=-1 | --cut-mm=-1
2 | convert a.h5 out --to=parquet | store
2 | convert space.yaml | no target was given; valid: cloudgan convert --verify SOURCE
2 | convert space.yaml b.h5 --verify | --verify with the target
2 | simulate no/a.h5 | no
2 | generate mine o.h5 --step=last | the number of a step, or best
2 | generate mine o.h5 --energy=a:b | --energy=a:b: expected low:high
2 | validate mine --showers=10 | --showers=10: expected at least 20
# Names in addresses
2 | setup --provider=gcp --region=../.. --dry-run | --region='../..': expected a name without
2 | setup --provider=aws --region=a/b --dry-run | --region='a/b': expected a name without
2 | setup --provider=azure --region=a?b --dry-run | --region='a?b': expected a name without
2 | setup --provider=gcp --region=x --project=a/b --dry-run | --project or --subscription='a/b': expected
# Numbers beyond memory, disk or clock
2 | simulate x.h5 --showers=1000000000000 | at least 2,000,000,000,000,000 bytes, and
2 | simulate x.h5 --energy=1e300 | --energy=1e+300: expected at most
2 | simulate LONG.h5 | File name too long
2 | simulate A240.h5 --showers=4 | name
2 | plan --provider=gcp --accelerator=v100:NINES | must be NAME or NAME:COUNT
2 | plan --gang-timeout=1000000000h | --gang-timeout=1000000000h: expected at most
2 | validate x --step=NINES | --step has 5000 digits
2 | bench scaling --strong --replicas=1,NINES | --replicas has 5000 digits
2 | train --data=absent.h5 | absent.h5
2 | train | --data is missing
2 | train --data=x.h5 --strategy=multiworker | --workers=N
2 | train --data=x.h5 --batch=2 --global-batch=4 | exclude each other
2 | TRAIN --until=metrik<1 | Did you mean 'metric'
2 | TRAIN --patience=2 | give --validate-every=1
2 | train --data=x.h5 --workers=10000 | --workers=10,000: expected at most 1,024
2 | simulate x.h5 --engine=geant4 --workers=10000 | --workers=10,000: expected at most
# Sweeps
2 | plan --seeds=1,2,1 | has 1 more than once
2 | deploy --seeds=1,2,1 | has 1 more than once
2 | plan --seeds=1,,2 | must be a whole number, got ''
2 | plan --seeds=1,2.5 | must be a whole number
2 | plan --seeds=1,-2 | at least 0
2 | plan --seeds=1,2147483648 | at most 2,147,483,647
2 | plan --seeds=1,2 --seed=3 | exclude each other
2 | plan --seeds=1,2 --name=A42 | -seed-1
2 | deploy --seeds=1,2 --detach --data=x.h5 | omit --detach
# Trainings on this machine
2 | train --engine=jax --data=. --parallel=downpour | --engine=jax does not support --parallel
2 | plan STORE -- evolve --config=jax.yaml --grid=2x2 | --engine=jax does not support a grid of cells
2 | train --engine=jax --data=. --stages=conv1 | --engine=jax does not support --stages
2 | train --engine=jax --data=. --loop=fit | --engine=jax does not support --loop
2 | train --engine=jax --data=. --precision=float64 | --engine=jax does not support --precision
2 | train --engine=jax --data=. --strategy=tpu | --engine=jax does not support --strategy
2 | WORKERS --checkpoints=gs://lab/run | so they cannot copy checkpoints to gs://lab/run; run one process instead
2 | WORKERS --track=mlflow | so they cannot reach the server of --track=mlflow; run one process instead
2 | WORKERS --track=wandb | so they cannot reach the server of --track=wandb; run one process instead
# Accounts, runs and documents
2 | setup --dry-run | give --provider=
2 | setup --provider=gcp --yes --purge | --teardown
2 | check --region=us-central1 | add --provider=
2 | status --provider=gcp | give its name too
2 | status 'My Run' --provider=kubernetes | --name=my-run would do
2 | status --watch=0.5 | --watch=0.5: expected at least 1 (seconds)
2 | status gan --project=lab-1 --region=us-central1 | only valid in a cloud; add --provider
2 | deploy K8S --image=x --yes | give --data=
2 | plan K8S --namespace=A | --namespace=
2 | plan K8S --namespace=LONG | --namespace=
2 | schema run.yml | run.yaml
2 | schema statsu | 'status'
2 | schema bench stepp | 'bench step'
2 | schema completion | document
2 | cost | cloudgan cost --fit
2 | cost runs/x --fit=x.csv --predict=4 | not both
2 | cost --fit=x.csv | --predict=32,64,128
2 | cost runs/x --predict=4 | --fit=CSV
2 | cost --fit=x.csv --predict=4 --price-as=OFFER | --price-as=
2 | cost --fit=x.csv --predict=four | four
2 | cost runs/x --report=cost.docx | .html
2 | cost runs/x --offer=OFFER | --offer
2 | cost nowhere | no run nowhere
2 | validate | give the folder of a run, or --generated=FILE and --reference=FILE
2 | validate --generated=a.h5 | --generated needs --reference=FILE
2 | validate --reference=a.h5 | --reference needs --generated=FILE
2 | validate runs/a --generated=a.h5 | runs/a and two files
2 | validate BOTH --step=3 | --step is only valid with a run
2 | validate BOTH --against=a.h5 | --against is only valid with a run
2 | validate BOTH --gate=nowhere.toml | nowhere.toml: cannot be read
2 | validate BOTH --gate mine.toml | mine.toml and two files
2 | validate BOTH --report=a.pdf | a report file ends in .html, .md, .csv
2 | validate BOTH | g.h5 does not exist
2 | validate space.yaml | space.yaml is a file; a run is given by its name or folder
2 | deploy nojob.yaml | `cloudgan init job nojob.yaml` writes one
# Empty words, and words that are no number
2 | validate '' | RUN is '', which is empty
# URLs in place of files of this machine
2 | simulate https://.h5 --showers=2 | is a URL; valid: a path of this machine, such as runs/mine
2 | train --data=x.h5 --run=gs://x/y | is a URL; valid: a path of this machine, such as runs/mine
2 | demo --run=s3:/x | is a URL; valid: a path of this machine, such as runs/mine
2 | generate gs://x/y out.h5 | is a URL; valid: a path of this machine, such as runs/mine
2 | cost gs://x/y --report=x.html | is a URL; valid: a path of this machine, such as runs/mine
2 | offers --report=gs://x/y.html | is a URL; valid: a path of this machine, such as runs/mine
2 | image --kind=cpu https:// | is a URL; valid: a path of this machine, such as runs/mine
2 | plan --provider=kubernetes --output=gs://x/y | is a URL; valid: a path of this machine, such as runs/mine
2 | bench step --roofline=gs://x/y.png | is a URL; valid: a path of this machine, such as runs/mine
2 | convert file://other-host/x out | other-host
2 | convert file: out | file:
2 | convert nope://x out | nope
2 | convert file://~no-such-user/x out | no-such-user
# Measurements
2 | bench stepp | Did you mean 'step'?
2 | bench step --against=publised | Did you mean 'published'?
2 | bench step --against=fast:precison=bfloat16 | Did you mean 'precision'?
2 | bench step --against=:threads=2 | unknown conv_impl in --against ''
2 | bench step --against=fast:precision | is not KEY=VALUE
2 | bench step --against=fast:precision=mixed | give --precision=bfloat16
2 | bench step --against=fast:precision=bfloat17 | training.precision
2 | bench step --against=fast:threads=two | threads is a whole number, got 'two'
2 | bench step --against=fast:replicas=0 | training.replicas
2 | bench step --roofline=roof.jpg | expected a .png file in an existing folder
2 | bench step --roofline=no/such/folder/roof.png | expected a .png file in an existing
2 | bench step --compare=no.json | --compare=no.json: no such file
2 | bench generate --run=runs/a --preset=mini | give --run or --preset
2 | bench generate --energy=0.1 | valid range: 1 to 1000 GeV
2 | bench generate --energy=ten | --energy=ten: expected low:high
2 | bench cells --grids=40x40 | the exchange is measured with the ranks of a small grid
2 | bench cells --grids=2x2,3 | --grids=3: expected ROWSxCOLUMNS
2 | bench scaling --replicas=1,2 | give --strong
2 | bench scaling --strong --weak --replicas=1,2 | give --strong
2 | bench scaling --strong | give --replicas=1,2 or --workers=1,2
2 | bench scaling --strong --replicas=1 | give --replicas=1,2 or --workers=1,2
2 | bench scaling --strong --replicas=two | --replicas=two: expected numbers of at least 1, such as 2,8
2 | bench scaling --weak --workers=0,2 | --workers=0: expected at least 1
2 | bench scaling --strong --replicas=3 --batches=16 | 3 replicas do not divide
2 | bench scaling --strong --replicas=2 --batches=most | usual, largest or numbers
2 | bench scaling --strong --replicas=2 --batches=usual,0 | --batches=0: expected at least 1
2 | bench scaling --strong --replicas=2 --presets=mini,papr | unknown value of --presets 'papr'. Did you mean 'paper'
2 | bench scaling --weak --replicas=2 --predict=8 | --predict is the bound of strong scaling
2 | bench bandwidth --ranks=1 | expected 2 to 64
2 | bench bandwidth --ranks=65 | expected 2 to 64
2 | bench parallel --predict=eight | --predict=eight: expected numbers
2 | bench parallel --predict=0 | --predict=0: expected at least 1
2 | bench parallel --predict=5000 | expected at most 4,096
2 | bench parallel --masters=1,,4 | --masters=1,,4: expected numbers
2 | bench parallel --workers=2 TIMES | omit --service-seconds
2 | bench input --data=nowhere.h5 | nowhere.h5
""".strip().splitlines()


ROWS = [line.split(" | ", 2) for line in CASES if not line.startswith("#")]


@pytest.fixture
def files(user_folder, monkeypatch):
    """What some of the cases name."""
    (user_folder / "join.yaml").write_text("{task: join, join: lr}")
    (user_folder / "jax.yaml").write_text("training: {engine: jax}")
    (user_folder / "simulate.yaml").write_text("run: simulate --showers=10")
    (user_folder / "space.yaml").write_text(
        "model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n"
    )
    for name, training in (("two", "workers: 2"), ("warm", "init_from: runs/other")):
        text = f"model: {{preset: smoke}}\ntraining: {{strategy: multiworker, {training}}}\n"
        (user_folder / f"{name}.yaml").write_text(text)
    (user_folder / "weights.yaml").write_text("model.loss_weights.shape: {low: 1.0, high: 9.0}\n")
    (user_folder / "control.sh").write_text("echo \x1b[2J\n")
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")


def popen(*_, **__):
    raise AssertionError("a process was started")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("code", "words", "said"), ROWS, ids=[words for _, words, _ in ROWS])
def test_a_command_that_cannot_be_is_refused_with_what_is_wrong(
    *, refused, monkeypatch, code, words, said
):
    if "search" in words or "crossvalidate" in words:
        pytest.importorskip("optuna")
    if words.startswith("bench"):  # what others import may start a process, such as h5py `uname`
        monkeypatch.setattr("cloudgan.bench.processes.subprocess.Popen", popen)
    for short, long in SHORT.items():
        words = re.sub(rf"\b{short}\b", long, words)
    typed = [word.replace("\\n", "\n") for word in shlex.split(words)]
    assert said in refused(*typed, exits=int(code))
