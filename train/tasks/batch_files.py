"""Files of lines as input of a command: one output file for each, and a stopped command continues.

An output file has the name of its input and is written whole or not at all, so files that exist are
complete. `OUTPUT/.batch/manifest.json` says which model, options and lines the files are made from;
nothing is added to files that were made from others.
"""

import contextlib
import glob
import gzip
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from tfx_transformer.checks import check_positive, import_extra
from tfx_transformer.files import lock_folder, whole_file, write_file
from tfx_transformer.runtime import start_tensorflow

STATE = ".batch"
SUFFIXES = (".csv", ".gz", ".tsv", ".txt")  # of files
CHUNK = 16  # batches that are read, sorted by length and answered together
Answers = Generator[tuple[str, bool]]  # for each line its answer, and whether it was truncated


@dataclass(frozen=True)
class FileOptions:
    """Files as input of a command."""

    input: tuple[str, ...] = ()
    """Files of lines, plain or .gz, instead of texts: names or patterns ('corpus/*.txt.gz')."""
    output: str | None = None
    """The folder for the results of --input: a file of the same name for each."""
    engine: Literal["local", "ray"] = "local"
    """With --input: this process, or processes of Ray on the cluster in RAY_ADDRESS or here."""
    workers: int = 1
    """Number of processes with --engine ray; each loads the model."""

    def are_given(self, **others) -> bool:
        """Whether there are files; raises if they are given with other inputs or incompletely."""
        if self == FileOptions():
            return False
        if not self.input:
            raise ValueError("--output, --engine and --workers need files; --input must name them")
        if not self.output:
            raise ValueError("--output must name a folder for the results of --input")
        if Path(self.output).suffix in SUFFIXES and not Path(self.output).is_dir():
            raise ValueError(f"--output must be a folder, not a file; got --output={self.output}")
        for name, value in others.items():
            if value:
                raise ValueError(f"{name} must not be given with input; got {name}={value}")
        check_positive(workers=self.workers)
        return True


Files = Annotated[FileOptions, tyro.conf.arg(name="")]  # of a command: --input, --output, …
NO_FILES = FileOptions()


@dataclass(frozen=True)
class LineWork:
    """How lines are answered: plain data, which another process can read.

    Args:
        model: a run folder, an export, or hf:OWNER/NAME.
        task: what the model must be for.
        options: of the pipeline.
        answer: (result of the pipeline, line) → text.
        batch_size: lines that are computed together.
    """

    model: str
    task: str
    options: dict[str, Any]
    answer: Callable[[Any, str], str]
    batch_size: int = 64

    def load(self) -> Callable[[list[str]], list[tuple[str, bool]]]:
        """Loads the model → a function from lines to their answers."""
        from tfx_transformer.train.run_folder import load_pipeline

        pipeline = load_pipeline(self.model, self.task, **self.options)

        def answer(lines):
            results = zip(pipeline.results(lines, self.batch_size), lines, strict=True)
            return [(self.answer(result, line), result.truncated) for result, line in results]

        return answer


@dataclass(frozen=True)
class Content:
    """The lines of a file: how many, and a hash of them."""

    lines: int
    sha256: str


def answer_files(options: FileOptions, work: LineWork) -> int:
    """Answers the lines of all files that have no output yet → number of truncated lines."""
    check_positive(batch_size=work.batch_size)
    output = Path(str(options.output))
    files = find_files(options.input, output)
    if options.engine == "ray":
        import_extra("ray", "engine=ray", "ray")
    start_tensorflow()
    from tfx_transformer.training.stopping import Stopped, StopSignals

    (output / STATE).mkdir(parents=True, exist_ok=True)
    try:
        with StopSignals(), lock_folder(output / STATE):
            return answer_missing(files, output, work, options)
    except Stopped as error:
        number = error.exit_code - 128
        raise Stopped(number, "stopped; the same command continues") from error


def answer_missing(files: list[Path], output: Path, work: LineWork, options: FileOptions) -> int:
    """As `answer_files`, in a folder that is locked."""
    contents = {path: read_content(path) for path in tqdm(files, "reading", disable=None)}
    open_output(output, work, contents)
    left = {path: x for path, x in contents.items() if not (output / path.name).exists()}
    if len(left) < len(files):
        print(f"{len(files) - len(left)} of {len(files)} files are complete", file=sys.stderr)
    if not left:
        return 0
    if options.engine == "local":
        answers = answer_locally(work, left)
    else:
        from tfx_transformer.train.tasks.batch_ray import answer_on_ray

        answers = answer_on_ray(work, left, options.workers)
    with contextlib.closing(answers):
        return write_answers(answers, left, output, sum(x.lines for x in contents.values()))


def find_files(inputs: tuple[str, ...], output: Path) -> list[Path]:
    """The files of all patterns, without repetition; their names differ, and from the outputs'."""
    files: dict[str, Path] = {}
    for pattern in inputs:
        is_file = Path(pattern).is_file()  # whose name may look like a pattern
        found = [pattern] if is_file else sorted(glob.glob(pattern, recursive=True))
        paths = [Path(name) for name in found if Path(name).is_file()]
        if not paths:
            raise FileNotFoundError(f"input must name files; there is no file {pattern}")
        for path in paths:
            other = files.setdefault(path.name, path)
            if not other.samefile(path):
                raise ValueError(f"input must name files of different names; got {other}, {path}")
            if (output / path.name).resolve() == path.resolve():
                raise ValueError(f"output must not be a folder of the input; got output={output}")
    return list(files.values())


def read_content(path: Path) -> Content:
    """Reads a file once; raises if a line is not UTF-8."""
    from tfx_transformer.data.sources import stream_lines

    count, digest = 0, hashlib.sha256()
    for count, line in enumerate(stream_lines(path), 1):  # noqa: B007
        digest.update(f"{line}\n".encode())
    return Content(count, digest.hexdigest())


def open_output(output: Path, work: LineWork, contents: dict[Path, Content]) -> None:
    """Writes the manifest; raises if there are files of another model, options or content."""
    from tfx_transformer.files import read_json, reading

    path = output / STATE / "manifest.json"
    made = json.loads(json.dumps({"model": hash_model(work.model)} | work.options))
    files = {file.name: asdict(content) for file, content in contents.items()}
    old_made, old_files = made, {}
    if path.exists():
        with reading(path):
            old = read_json(path)
            old_made, old_files = old["made"], dict(old["files"])
    old_files = {name: x for name, x in old_files.items() if (output / name).exists()}
    changed = [
        f"{name} was {old_made.get(name)}, is {made.get(name)}"
        for name in made | old_made
        if made.get(name) != old_made.get(name)
    ]
    if old_files and changed:
        raise ValueError(
            f"{output} holds files of another model or other options: {'; '.join(changed)}; "
            "choose another folder, or remove this one"
        )
    for file in contents:
        if (output / file.name).exists() and old_files.get(file.name) != files[file.name]:
            origin = "older lines of" if file.name in old_files else "something else than"
            raise ValueError(
                f"{output / file.name} was made from {origin} {file}; remove it to replace it"
            )
    manifest = {"made": made, "files": old_files | files}
    write_file(path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def hash_model(model: str) -> str:
    """A hash of the files that `load_pipeline` reads."""
    from tfx_transformer.convert.hub import find_folder

    folder = find_folder(model)
    patterns = ["**/*"]
    if (folder / "recipe.json").exists():  # a run, which has other files too
        weights = "model.keras" if (folder / "model.keras").exists() else "checkpoints/*"
        patterns = ["recipe.json", "classes.json", "tokenizer/**/*", weights]
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def read_chunks(files: dict[Path, Content], size: int) -> Iterator[list[str]]:
    """The lines of all files, in lists of `size`; raises if a file has changed since."""
    from tfx_transformer.data.sources import stream_lines

    def lines():
        for path, content in files.items():
            count = 0
            for count, line in enumerate(stream_lines(path), 1):
                if count <= content.lines:
                    yield line
            if count != content.lines:
                raise ValueError(f"{path} changed while it was read")

    stream = lines()
    while chunk := list(itertools.islice(stream, size)):
        yield chunk


def answer_locally(work: LineWork, files: dict[Path, Content]) -> Answers:
    answer = work.load()
    for chunk in read_chunks(files, CHUNK * work.batch_size):
        yield from answer(chunk)


def write_answers(answers: Answers, files: dict[Path, Content], output: Path, total: int) -> int:
    """Writes a file for each input → number of truncated lines."""
    from tfx_transformer.training.callbacks import ProgressLine, time_left

    first = done = total - sum(content.lines for content in files.values())
    truncated, start, text = 0, time.perf_counter(), ""
    progress = ProgressLine("line", total, done)
    for path, content in files.items():
        with whole_file(output / path.name) as temporary, create_file(temporary) as file:
            for done in range(done + 1, done + 1 + content.lines):  # noqa: B020
                answer, is_truncated = next(answers)
                file.write(f"{answer}\n".encode())
                truncated += is_truncated
                speed = (done - first) / (time.perf_counter() - start)
                text = f"{speed:,.0f} lines/s, {time_left((total - done) / speed)}"
                progress.show(done, text)
        tqdm.write(str(output / path.name))
    if text:
        progress.close(done, text)
    return truncated


@contextlib.contextmanager
def create_file(path: Path) -> Iterator[Any]:
    """A new file for bytes; of the suffix .gz compressed, the same bytes at all times."""
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            yield compressed
