"""Load on a server: throughput, latency under load, overload, memory, and the cost of HTTP.

    python benchmarks/serving.py a=FOLDER b=FOLDER --texts test.en --images photos/
    python benchmarks/serving.py a=FOLDER --texts test.en --engine ray --serve "--replicas 2"
    python benchmarks/serving.py digits=FOLDER --images photos/ --only http

Starts `tfx-transformer serve` on the loopback and sends requests of one row, over connections that
stay open. For each model, in this order:

    alone      one client, the next request after the last answer (closed loop)
    closed     32 clients, the same
    70 %       requests at random moments (open loop), 0.7 of the rate of `closed`
    200 %      the same with 2.0 of it, for `--minutes`: answers or refusals, none late; and the
               memory of the server after each tenth of the time
    http       one client as in `alone`, and after each request the same row by the SavedModel's
               function in a process without a server; the difference is what the server costs

`answered` is the share of requests with a result, `refused` that with 429 or 503. `late` is the
number of those with 504, at the deadline, and `failed` that of all others.
"""

import argparse
import asyncio
import base64
import json
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

CLIENTS = 32
WARM, CALLS = 50, 500  # requests that are not and are measured, for the cost of HTTP
with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]
TENTHS = 10
BARE = """
import base64, sys, time
import tensorflow as tf, tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
for line in sys.stdin:
    row, start = base64.b64decode(line), time.perf_counter()
    {name: value.numpy() for name, value in signature(tf.constant([row])).items()}
    print(time.perf_counter() - start, flush=True)
"""


async def post(connection, path: str, body: bytes, extra: str = "") -> tuple[int, float]:
    """The status of one request, and its seconds."""
    reader, writer = connection
    start = time.perf_counter()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    writer.write(head.encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
    await reader.readexactly(int(fields[b"content-length"]))
    return int(head.split()[1]), time.perf_counter() - start


async def closed_loop(path, bodies, clients: int, seconds: float) -> list[tuple[int, float]]:
    """Each client sends its next request after the answer to the last one."""
    end, results = time.perf_counter() + seconds, []

    async def client(number):
        connection = await asyncio.open_connection("127.0.0.1", PORT)
        rng = random.Random(number)
        while time.perf_counter() < end:
            results.append(await post(connection, path, rng.choice(bodies)))
        connection[1].close()

    await asyncio.gather(*map(client, range(clients)))
    return results


async def open_loop(path, bodies, rate: float, seconds: float) -> list[tuple[int, float]]:
    """Requests at random moments, whether or not the last ones are answered."""
    results: list[tuple[int, float]] = []
    free: list = []  # connections
    rng, tasks = random.Random(0), set()

    async def send(body):
        start = time.perf_counter()
        connection = free.pop() if free else await asyncio.open_connection("127.0.0.1", PORT)
        try:
            results.append(await asyncio.wait_for(post(connection, path, body), 120))
            free.append(connection)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            results.append((0, time.perf_counter() - start))

    start = moment = time.perf_counter()
    while moment < start + seconds:
        moment += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        task = asyncio.create_task(send(rng.choice(bodies)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return results


def summary(results, seconds: float) -> dict[str, float]:
    """Answers per second, p50 and p99 in milliseconds, and the shares of answers and failures."""
    good = sorted(1000 * t for status, t in results if status == 200)
    refused = sum(status in (429, 503) for status, _ in results)
    late = sum(status == 504 for status, _ in results)
    worst = max(t for _, t in results)
    return {
        "per_second": round(len(good) / seconds, 1),
        "p50_ms": round(statistics.median(good), 1) if good else 0,
        "p99_ms": round(good[int(0.99 * (len(good) - 1))], 1) if good else 0,
        "slowest_s": round(worst, 2),
        "answered": round(len(good) / len(results), 4),
        "refused": round(refused / len(results), 4),
        "late": late,
        "failed": len(results) - len(good) - refused - late,
    }


def memory(process: subprocess.Popen) -> int:
    """Resident megabytes of the server and all processes that it started."""
    table = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True).stdout
    rows = [tuple(map(int, line.split())) for line in table.splitlines()[1:]]
    family = {process.pid}
    while more := {pid for pid, parent, _ in rows if parent in family} - family:
        family |= more
    return sum(rss for pid, _, rss in rows if pid in family) // 1024


async def overload(path, bodies, rate, minutes, process) -> dict[str, Any]:
    """`open_loop`, and the memory after each tenth of the time."""
    seconds, megabytes = 60 * minutes, []
    load = asyncio.create_task(open_loop(path, bodies, rate, seconds))
    for _ in range(TENTHS):
        await asyncio.sleep(seconds / TENTHS)
        megabytes.append(memory(process))
    return summary(await load, seconds) | {"memory_mb": megabytes}


def wait_until_ready(process: subprocess.Popen) -> None:
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz")
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the server did not start")


async def http_cost(path, bodies, rows, folder: str) -> dict[str, float]:
    """Medians in milliseconds of requests and of the function alone, one after the other."""
    command, pipe = [sys.executable, "-c", BARE, folder], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    connection, served, bare = await asyncio.open_connection("127.0.0.1", PORT), [], []
    for i in range(WARM + CALLS):
        status, seconds = await post(connection, path, bodies[i % len(rows)])
        print(base64.b64encode(rows[i % len(rows)]).decode(), file=process.stdin, flush=True)
        bare.append(1000 * float(process.stdout.readline()))
        served.append(1000 * seconds)
        if status != 200:
            raise SystemExit(f"a request failed with {status}")
    process.stdin.close()
    process.wait()
    served, bare = served[WARM:], bare[WARM:]
    both = {"bare_ms": statistics.median(bare), "request_ms": statistics.median(served)}
    both["cost_ms"] = statistics.median(x - y for x, y in zip(served, bare, strict=True))
    return {name: round(value, 2) for name, value in both.items()}


def requests(kind: str, args) -> tuple[str, list[bytes], list[bytes]]:
    """The input's name, the inputs, and the bodies of requests."""
    if kind == "image":
        rows = [path.read_bytes() for path in sorted(Path(args.images).rglob("*.jpg"))[:200]]
        values = [{"b64": base64.b64encode(row).decode()} for row in rows]
    else:
        rows = Path(args.texts).read_bytes().splitlines()[:1000]
        values = [row.decode() for row in rows]
    return kind, rows, [json.dumps({"instances": [{kind: value}]}).encode() for value in values]


async def measure(name: str, folder: str, process, args) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/models/{name}/metadata") as answer:
        signature = json.load(answer)["metadata"]["signature_def"]["signature_def"]
    (kind,) = signature["serving_default"]["inputs"]
    _, rows, bodies = requests(kind, args)
    path = f"/v1/models/{name}:predict"
    print(f"\n{name}: {folder}", flush=True)

    def show(case, figures):
        print(f"  {case:<8}", json.dumps(figures), flush=True)
        return figures

    if args.only == "http":
        show("http", await http_cost(path, bodies, rows, folder))
        return
    await closed_loop(path, bodies, 4, 3)
    alone = show("alone", summary(await closed_loop(path, bodies, 1, args.seconds), args.seconds))
    full = summary(await closed_loop(path, bodies, CLIENTS, args.seconds), args.seconds)
    show("closed", full | {"times_alone": round(full["per_second"] / alone["per_second"], 2)})
    rate = 0.7 * full["per_second"]
    most = summary(await open_loop(path, bodies, rate, args.seconds), args.seconds)
    show("70 %", most | {"p99_per_p50": round(most["p99_ms"] / most["p50_ms"], 2)})
    if args.minutes:
        rate = 2.0 * full["per_second"]
        show("200 %", await overload(path, bodies, rate, args.minutes, process))
    if (Path(folder) / "saved_model.pb").exists() and args.only is None:
        show("http", await http_cost(path, bodies, rows, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--texts", help="file with a sentence in each line")
    parser.add_argument("--images", help="folder with .jpg files")
    parser.add_argument("--seconds", type=float, default=20, help="of each case")
    parser.add_argument("--minutes", type=float, default=1, help="of the overload; 0 is none")
    parser.add_argument("--only", choices=["load", "http"], help="these cases only")
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--serve", default="", help="more options of the server")
    args = parser.parse_args()
    for model in args.models:  # one server for each, so that they do not share the machine
        command = [Path(sys.executable).parent / "tfx-transformer", "serve", model]
        command += ["--port", str(PORT), "--grpc-port", "0", *args.serve.split()]
        command += ["--engine", "ray"] if args.engine == "ray" else []
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(process)
            asyncio.run(measure(*model.split("=", 1), process, args))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
