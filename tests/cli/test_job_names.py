"""A job is named after the script or module that its command starts."""

from __future__ import annotations

import pytest

from stepwatch.cli.jobs.job_names import job_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("torchrun --nproc-per-node 2 src/train.py --out x.py", "train"),
        ("torchrun --standalone --nproc_per_node=2 -m pkg.train --x a.py", "pkg.train"),
        ("torchrun -m --nnodes 1 pkg.train", "pkg.train"),
        ("torchrun --no-python --nproc-per-node 2 python -m foo.train", "foo.train"),
        ("python -m foo.train --x a.py", "foo.train"),
        ("/env/bin/python3.11 -u -W ignore -X dev train.py", "train"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train"),
        ("python /env/bin/torchrun --standalone train.py", "train"),
        ("python -m pkg.__main__", "pkg"),
        ("python -c pass", "python"),
        ("python", "python"),
        ("accelerate launch --multi_gpu --num_processes 2 --config_file c.yaml fit.py", "fit"),
        ("accelerate launch -m pkg.fit --debug", "pkg.fit"),
        ("accelerate launch --some_new_flag fit.py", "fit"),
        ("deepspeed --num_gpus 2 --module pkg.big --deepspeed_config z.py", "pkg.big"),
        ("deepspeed --include localhost:0,1 --no_local_rank big.py", "big"),
        ("srun -n 4 python train.py", "train"),
        ("env A=b nice -n 5 torchrun -m pkg.train", "pkg.train"),
        ("bash launch.sh --fast", "launch"),
        ("./_my-train!.py", "my-train-"),
        ("...", "default"),
    ],
)
def test_a_job_is_named_after_what_its_command_starts(command: str, name: str) -> None:
    assert job_name(command.split(" ")) == name
