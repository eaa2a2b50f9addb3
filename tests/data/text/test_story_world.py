"""The embedded world against a second simulation that reads the sentences."""

import re
from collections import Counter

import numpy as np
import pytest

from tfx_transformer.data.text.story_world import (
    BEGINNING,
    KINDS,
    LENGTHS,
    NUMBERS,
    ROOMS,
    world_questions,
)

COUNT = 300
SENTENCE = re.compile(
    r"(\w+) (?:(went to|went back to|moved to|journeyed to|travelled to)|(got|took|grabbed|picked "
    r"up)|(left|dropped|discarded|put down)) the (\w+)(?: there)?\."
)


@pytest.fixture(scope="module", params=KINDS)
def questions(request):
    return world_questions(request.param, "test", COUNT)


def answer(story, question):
    """The answer by reading the story from its beginning."""
    room, carried, trail = {}, {}, {}
    for sentence in story:
        person, moves, takes, leaves, what = SENTENCE.fullmatch(sentence).groups()
        own = carried.setdefault(person, set())
        if moves:
            room[person] = what
        elif takes:
            assert all(what not in other for other in carried.values())
            assert not trail.get(what) or trail[what][-1] == room[person], "it is elsewhere"
            own.add(what)
        else:
            own.remove(what)
        for name in {what} - {*ROOMS} | own:
            rooms = trail.setdefault(name, [])
            if not rooms or rooms[-1] != room[person]:
                rooms.append(room[person])
    words = question.rstrip("?").split()
    if question.startswith("Where was"):
        rooms = trail[words[3]]
        return rooms[len(rooms) - 2 - rooms[::-1].index(words[-1])]
    if question.startswith("Where is the"):
        return trail[words[-1]][-1]
    if question.startswith("Where"):
        return room[words[-1]]
    if question.startswith("Is"):
        return "yes" if room[words[1]] == words[-1] else "no"
    person = words[-2]
    own = carried.get(person, set())
    return NUMBERS[len(own)] if question.startswith("How") else ",".join(sorted(own)) or "nothing"


def test_the_answers_are_right(questions):
    for x in questions:
        assert answer(x.story, x.question) == x.answer, x


def test_the_facts_are_enough_and_each_is_needed(questions):
    """By the sentences of the facts alone, and without each of them."""
    kind = questions[0].kind
    if kind in ("yes_no", "counting", "lists"):
        pytest.skip("a fact may be missing where the answer is no, none or nothing")
    wanted = {"one_fact": {1}, "two_facts": {2}, "three_facts": {2, 3, 4}}[kind]
    assert {len(x.facts) for x in questions} <= wanted
    for x in questions:
        for fact in x.facts:
            assert 0 <= fact < len(x.story)
        if kind == "one_fact":
            assert answer([x.story[i] for i in x.facts], x.question) == x.answer


def test_one_sentence_is_not_enough_for_two_facts():
    """The last room that is named, or the last move of anybody, is usually not the answer."""
    questions = world_questions("two_facts", "test", COUNT)
    last_room = [re.findall("|".join(ROOMS), " ".join(x.story))[-1] for x in questions]
    right = [guess == x.answer for guess, x in zip(last_room, questions, strict=True)]
    assert np.mean(right) < 0.5
    named = [
        x.answer in "".join(s for s in x.story if x.question.split()[-1][:-1] in s)
        for x in questions
    ]
    assert not any(named), "no sentence has the object and the room"


def test_stories_have_the_lengths_of_their_kind(questions):
    lengths = [len(x.story) for x in questions]
    shortest, longest = LENGTHS[questions[0].kind]
    assert shortest <= min(lengths) < max(lengths) <= longest


def test_answers_are_spread(questions):
    (_, most), *_ = Counter(x.answer for x in questions).most_common()
    assert most < (0.3 if "fact" in questions[0].kind else 0.62) * COUNT


def test_no_story_of_the_test_begins_like_one_for_training(questions):
    kind = questions[0].kind
    train, test = world_questions(kind, "train", COUNT), questions
    first, second = ({x.story[:BEGINNING] for x in part} for part in (train, test))
    assert not first & second
    assert world_questions(kind, "train", COUNT) == train


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind 'four_facts'; known: one_fact, two_facts"):
        world_questions("four_facts", "train")
