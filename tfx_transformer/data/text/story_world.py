"""A small simulated world of people, rooms and objects, and questions about what happened in it.

After the bAbI tasks 1, 2, 3, 6, 7 and 8 (arXiv:1502.05698):

    one_fact     Where is Mary?                           her last move
    two_facts    Where is the milk?                       who took or left it, and where
    three_facts  Where was the milk before the kitchen?   and where that person was before
    yes_no       Is Mary in the kitchen?
    counting     How many objects is Mary carrying?
    lists        What is Mary carrying?                   such as "apple,milk"

Sentences about other people and objects are mixed in. The split of a story is that of the hash of
its first sentences, so no test story begins like one of the training set.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tfx_transformer.checks import check_choice
from tfx_transformer.data.splits import assign_split

PEOPLE = ("John", "Mary", "Sandra", "Daniel")
ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
OBJECTS = ("apple", "football", "milk")
MOVE = ("went to", "went back to", "moved to", "journeyed to", "travelled to")
TAKE = ("got", "took", "grabbed", "picked up")
LEAVE = ("left", "dropped", "discarded", "put down")
LENGTHS = {  # sentences before a question, at least and at most
    "one_fact": (4, 16),
    "two_facts": (6, 20),
    "three_facts": (10, 30),
    "yes_no": (4, 16),
    "counting": (6, 20),
    "lists": (6, 20),
}
KINDS = tuple(LENGTHS)
COUNTS = {"train": 10_000, "validation": 500, "test": 1000}  # questions of each kind
BEGINNING = 3  # sentences that decide the split
PER_STORY = 4  # questions, each after another number of sentences
NUMBERS = ("none", "one", "two", "three")


@dataclass(frozen=True)
class Question:
    """A question about a story.

    Args:
        kind: the kind of question.
        story: the sentences before the question.
        question: the question.
        answer: one word, or several with commas.
        facts: indices of the sentences that are needed for the answer, if they are known.
    """

    kind: str
    story: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...] = ()


def world_questions(kind: str, split: str, count: int | None = None) -> list[Question]:
    """Questions of one kind, always the same; the first `count` of them."""
    check_choice(*KINDS, kind=kind)
    questions = _questions(kind, split, random.Random(f"{kind} {split}"))
    return list(itertools.islice(questions, COUNTS[split] if count is None else count))


def _questions(kind: str, split: str, rng: random.Random) -> Iterator[Question]:
    shortest, longest = LENGTHS[kind]
    while True:
        world = World(rng)
        while len(world.story) < BEGINNING:
            world.step()
        if assign_split("\n".join(world.story)) != split:
            continue
        for length in sorted(rng.sample(range(shortest, longest + 1), PER_STORY)):
            while len(world.story) < length:
                world.step()
            asked = getattr(world, f"ask_{kind}")()
            if asked:
                yield Question(kind, tuple(world.story), *asked)


class World:
    """Where everybody and everything is, with the sentence that says so."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.story: list[str] = []
        self.room: dict[str, tuple[str, int]] = {}  # of a person; the sentence of the move
        self.carried: dict[str, dict[str, int]] = {person: {} for person in PEOPLE}  # taken when
        # the rooms in which an object was, each with the sentences that say so
        self.trail: dict[str, list[tuple[str, tuple[int, ...]]]] = {name: [] for name in OBJECTS}

    def step(self) -> None:
        """One more sentence: somebody moves, takes an object, or leaves one."""
        person = self.rng.choice(PEOPLE)
        holding = self.carried[person]
        here = self.room.get(person, ("", 0))[0]
        taken = {name for own in self.carried.values() for name in own}
        free = [x for x in OBJECTS if x not in taken and self._may_be_in(here, x)]
        if here and (free or holding) and self.rng.random() < 0.5:
            if free and (not holding or self.rng.random() < 0.6):
                self._take(person, self.rng.choice(free))
            else:
                self._leave(person, self.rng.choice(sorted(holding)))
        else:
            self._move(person, self.rng.choice([room for room in ROOMS if room != here]))

    def _may_be_in(self, room: str, name: str) -> bool:
        return not self.trail[name] or self.trail[name][-1][0] == room

    def _move(self, person: str, room: str) -> None:
        index = len(self.story)
        self.story.append(f"{person} {self.rng.choice(MOVE)} the {room}.")
        self.room[person] = room, index
        for name, taken in self.carried[person].items():
            self.trail[name].append((room, (taken, index)))

    def _take(self, person: str, name: str) -> None:
        index, (room, moved) = len(self.story), self.room[person]
        there = self.rng.choice((" there", ""))
        self.story.append(f"{person} {self.rng.choice(TAKE)} the {name}{there}.")
        self.carried[person][name] = index
        self._be_in(name, room, (moved, index))

    def _leave(self, person: str, name: str) -> None:
        index, (room, moved) = len(self.story), self.room[person]
        there = self.rng.choice((" there", ""))
        self.story.append(f"{person} {self.rng.choice(LEAVE)} the {name}{there}.")
        del self.carried[person][name]
        self._be_in(name, room, (moved, index))

    def _be_in(self, name: str, room: str, facts: tuple[int, ...]) -> None:
        trail = self.trail[name]
        if trail and trail[-1][0] == room:
            trail.pop()
        trail.append((room, facts))

    def ask_one_fact(self):
        person = self.rng.choice(sorted(self.room))
        room, index = self.room[person]
        return f"Where is {person}?", room, (index,)

    def ask_two_facts(self):
        known = [name for name in OBJECTS if self.trail[name]]
        if not known:
            return None
        name = self.rng.choice(known)
        room, facts = self.trail[name][-1]
        return f"Where is the {name}?", room, facts

    def ask_three_facts(self):
        choices = []
        for name, trail in self.trail.items():
            last = {room: i for i, (room, _) in enumerate(trail)}
            choices += [(name, i) for i in last.values() if i > 0]
        if not choices:
            return None
        name, i = self.rng.choice(choices)
        (before, first), (room, second) = self.trail[name][i - 1 : i + 1]
        facts = tuple(sorted({*first, *second}))
        return f"Where was the {name} before the {room}?", before, facts

    def ask_yes_no(self):
        person = self.rng.choice(sorted(self.room))
        room, index = self.room[person]
        others = [other for other in ROOMS if other != room]
        is_true = self.rng.random() < 0.5
        asked = room if is_true else self.rng.choice(others)
        return f"Is {person} in the {asked}?", "yes" if is_true else "no", (index,)

    def ask_counting(self):
        person, names, facts = self._someone_carrying()
        return f"How many objects is {person} carrying?", NUMBERS[len(names)], facts

    def ask_lists(self):
        person, names, facts = self._someone_carrying()
        return f"What is {person} carrying?", ",".join(names) or "nothing", facts

    def _someone_carrying(self):
        people = sorted(self.room)
        carriers = [person for person in people if self.carried[person]]
        person = self.rng.choice(carriers if carriers and self.rng.random() < 0.5 else people)
        carried = self.carried[person]
        return person, sorted(carried), tuple(sorted(carried.values()))
