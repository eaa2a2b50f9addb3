"""Stories with questions, from files in the format of bAbI or from the embedded world.

    load_stories("tasks_1-20_v1-2/en-10k", "train")   a folder with …_train.txt and …_test.txt
    load_stories("qa1_train.txt")                     one file
    load_stories("embedded:stories")                  all kinds of `story_world`
    load_stories("embedded:stories/one_fact-yes_no")  some of them

A line of a file is a sentence, or a question with its answer and the numbers of the lines that are
needed for it, if they are known. Line 1 begins a story:

    1 Mary went to the kitchen.
    2 John left the milk.
    3 Where is Mary?<TAB>kitchen<TAB>1

A question is about the sentences before it. An answer of several words ("apple,milk") is a class of
its own. The name of a file is the kind of its questions. Files may end in .gz. A missing split is
held out from the training set: a tenth of the stories, by a hash of the text.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tfx_transformer.checks import check_choice
from tfx_transformer.data import sources
from tfx_transformer.data.splits import SPLIT_NAMES, SPLITS, assign_split
from tfx_transformer.data.text.story_world import KINDS, Question, world_questions

KNOWN = 'a folder of "…_train.txt", "FILE.txt" (also .gz), "embedded:stories[/KIND-KIND-…]"'
ENDINGS = {"train": "train", "valid": "validation", "test": "test"} | SPLIT_NAMES


@dataclass(frozen=True)
class Stories:
    """Questions about stories."""

    name: str
    questions: list[Question]

    def __len__(self) -> int:
        return len(self.questions)

    def __str__(self) -> str:
        kinds = Counter(question.kind for question in self.questions)
        return f"{self.name}: {len(self):,} questions ({sources.describe_counts(kinds)})"


def load_stories(
    spec: str | Path, split: str = "train", hold_out: Collection[str] = ("validation", "test")
) -> Stories:
    """Reads one split of a source into memory.

    Args:
        spec: the source; see the top of this file.
        split: "train", "validation" or "test".
        hold_out: the splits to hold out from "train" if the source does not have them. If `split`
            is not among them, a file as a whole is that split.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(spec).partition(":")
    if scheme == "embedded":
        found = _read_embedded(rest, split)
    else:
        path = sources.check_path(spec, KNOWN)
        files = _find_files(path, split, hold_out)
        stored = SPLITS if not path.is_dir() and split not in (*hold_out, "train") else files
        found = []
        for kind, file in files.get(split, files["train"]):
            for story in read_stories(file, kind):
                held_out = assign_split("\n".join([*story[-1].story, story[-1].question]))
                own = held_out if held_out in hold_out and held_out not in stored else "train"
                if split in stored and split != "train" or split == own:
                    found += story
    if not found:
        raise ValueError(f"{spec} ({split}) has no questions")
    return Stories(f"{spec} ({split})", found)


def read_stories(path: Path, kind: str) -> list[list[Question]]:
    """The questions of each story in a file."""
    stories: list[list[Question]] = []
    sentences: list[str] = []
    lines: dict[int, int] = {}  # number of a line: index of its sentence
    last = 0
    for row, line in enumerate(sources.read_lines(path), 1):
        if not line.strip():
            continue
        number, _, text = line.strip().partition(" ")
        if not number.isdecimal() or int(number) not in (1, last + 1):
            rule = f"must begin with 1 or {last + 1}" if last else "must begin with 1"
            raise ValueError(f"{path}, line {row}: {rule}; got {line[:40]!r}")
        last = int(number)
        if last == 1:
            stories.append([])
            sentences, lines = [], {}
        question, *rest = (part.strip() for part in text.split("\t"))
        if not rest:
            lines[last] = len(sentences)
            sentences.append(question)
            continue
        answer, *facts = rest
        needed = facts[0].split() if facts else []
        if (
            not answer
            or not sentences
            or not all(x.isdecimal() and int(x) in lines for x in needed)
        ):
            rule = "must be question<TAB>answer<TAB>numbers of sentences before it"
            raise ValueError(f"{path}, line {row}: {rule}; got {text!r:.80}")
        indices = tuple(lines[int(x)] for x in needed)
        stories[-1].append(Question(kind, tuple(sentences), question, answer, indices))
    return [story for story in stories if story]


def _find_files(path: Path, split: str, hold_out) -> dict[str, list[tuple[str, Path]]]:
    """{split: [(kind, file), …]} of a folder, or of a file, which is the training set."""
    if not path.is_dir():
        if not path.name.endswith((".txt", ".txt.gz")):
            raise sources.unknown_source(path, KNOWN)
        return {"train": [(_kind_and_split(path)[0], path)]}
    files: dict[str, list[tuple[str, Path]]] = {}
    for file in sorted([*path.glob("*.txt"), *path.glob("*.txt.gz")]):
        kind, own = _kind_and_split(file)
        if own:
            files.setdefault(own, []).append((kind, file))
    if "train" not in files or split not in (*files, *hold_out):
        raise ValueError(f"{path} must have files …_train.txt, and …_{split}.txt")
    return files


def _kind_and_split(path: Path) -> tuple[str, str]:
    """qa1_single-supporting-fact_train.txt → the kind and the split; "" if there is none."""
    stem = path.name.removesuffix(".gz").removesuffix(".txt")
    kind, _, ending = stem.rpartition("_")
    return (kind, ENDINGS[ending]) if kind and ending in ENDINGS else (stem, "")


def _read_embedded(rest: str, split: str) -> list[Question]:
    name, _, kinds = rest.partition("/")
    if name != "stories":
        raise sources.unknown_source(f"embedded:{rest}", KNOWN)
    chosen = kinds.split("-") if kinds else KINDS
    return [question for kind in chosen for question in world_questions(kind, split)]
