"""How Ray is started."""

import math
import os
import sys
from typing import Any

import ray


def start_ray(num_cpus: float) -> None:
    """Connects to the cluster of RAY_ADDRESS; without it, starts Ray on this machine.

    Args:
        num_cpus: that will be reserved. Started here, Ray counts at least as many.
    """
    address = os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options["num_cpus"] = max(math.ceil(num_cpus), os.cpu_count() or 1)
        options["include_dashboard"] = False
    ray.init(address, **options)
    found = ray.cluster_resources().get("CPU", 0)
    if found < num_cpus:
        print(f"waiting for {num_cpus:g} CPUs; the cluster has {found:g}", file=sys.stderr)
