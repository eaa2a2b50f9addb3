"""`tfx-transformer launch --engine ray`: the workers are processes of Ray Train, on a cluster.

Ray replaces a worker that died: all start again from the last checkpoint in the run folder, which
must be on a disk that all machines share.
"""

import json
import os
from pathlib import Path
from typing import Any

from tfx_transformer.checks import import_extra
from tfx_transformer.train.launch.local import LaunchOptions, visible_gpus


def launch(arguments: list[str], folder: Path, options: LaunchOptions) -> int:
    """Runs `train` with these arguments in each worker of the cluster in RAY_ADDRESS, or of a new
    one on this machine → the exit code. Ray's own files are in folder/workers."""
    ray = import_extra("ray", "--engine ray", "ray")
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    if not ray.is_initialized():
        own: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        ray.init(**{} if "RAY_ADDRESS" in os.environ else own)
    devices = {"GPU": float(options.devices_per_worker)} if visible_gpus() else {}
    trainer = TensorflowTrainer(
        work,
        train_loop_config={"arguments": arguments},
        scaling_config=ScalingConfig(
            num_workers=options.workers,
            use_gpu=bool(devices),
            resources_per_worker={"CPU": 1.0} | devices,
        ),
        run_config=RunConfig(
            name="ray",
            storage_path=str((folder / "workers").absolute()),
            failure_config=FailureConfig(max_failures=options.restarts),
        ),
    )
    trainer.fit()
    return 0


def work(config: dict[str, Any]) -> None:
    """In each worker; Ray has set TF_CONFIG."""
    os.environ["TF_CONFIG"] = json.dumps(with_loopback(json.loads(os.environ["TF_CONFIG"])))
    from tfx_transformer.train.cli import run_train

    run_train(config["arguments"])


def with_loopback(config: dict[str, Any]) -> dict[str, Any]:
    """TF_CONFIG with the address of the loopback if all workers are on one machine."""
    workers = config["cluster"]["worker"]
    if len({address.rpartition(":")[0] for address in workers}) == 1:
        workers = [f"127.0.0.1:{address.rpartition(':')[2]}" for address in workers]
    return config | {"cluster": {"worker": workers}}
