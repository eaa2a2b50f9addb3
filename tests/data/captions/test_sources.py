"""Captions of every format, joined with their images, and every error of such files."""

import gzip
import hashlib
import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.captions.sources import Captions, load_captions
from tfx_transformer.data.images.files import encode_png
from tfx_transformer.data.splits import SPLITS

FLICKR = Path(__file__).parents[4] / "shared/data/flickr8k"
TEXTS = {
    "b.png": ["A dog runs .", "A brown dog , running"],
    "a.png": ['He said "hi" .'],
    "c.png": ["Große Straße", "ein Hund"],
}


def image(number):
    """Pixels with the number of the image."""
    return encode_png(np.full((2, 3), number, "uint8"))


def number_of(item):
    return int(tf.io.decode_image(item, channels=3, expand_animations=False)[0, 0, 0])


def as_dict(captions):
    """{name: (number of the image, its captions)}."""
    numbers = map(number_of, captions.items)
    return dict(zip(captions.files, zip(numbers, captions.texts, strict=True), strict=True))


def hash_split(name):
    tenth = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % 10
    return {0: "test", 1: "validation"}.get(tenth, "train")


def tokens(texts):
    return "".join(f"{n}#{i}\t{t}\n" for n, part in texts.items() for i, t in enumerate(part))


def table(texts, header="image,caption"):
    rows = ['{},"{}"'.format(n, t.replace('"', '""')) for n, part in texts.items() for t in part]
    return "\n".join([header, *rows]) + "\n"


def coco(texts):
    ids = {name: 40 + index for index, name in enumerate(texts)}
    pairs = [(name, text) for name, part in texts.items() for text in part]
    return {
        "info": {"year": 2014},
        "images": [{"id": number, "file_name": name, "width": 3} for name, number in ids.items()],
        "annotations": [{"image_id": ids[n], "id": 7, "caption": f"{t}\n"} for n, t in pairs],
    }


@pytest.fixture
def folder(tmp_path):
    """Three images, two of them in sub-folders."""
    for number, path in enumerate(["images/one/b.png", "images/a.png", "images/two/x/c.png"]):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(image(10 * number))
    (tmp_path / "names.txt").write_text("\nc.png \n\na.png\r\nb.png\nc.png\n")
    return tmp_path


def load(folder, text, names="names.txt", file="captions.txt"):
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_captions(folder / "images", folder / file, names and folder / names)


FORMATS = {
    "tokens": tokens(TEXTS),
    "tokens of Windows": "\ufeff" + tokens(TEXTS).replace("\n", "\r\n") + "\r\n\r\n",
    "csv": table(TEXTS),
    "csv with other names": table(TEXTS, 'File_Name ,"Caption"') + "\n",
    "csv with more columns": "id,caption,file\n"
    + "".join(f'7,"{t}",{n}\n' for n, part in TEXTS.items() for t in part).replace(
        '"hi"', '""hi""'
    ),
    "coco": json.dumps(coco(TEXTS)),
    "json": json.dumps(TEXTS, ensure_ascii=False, indent=1),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("compressed", [False, True])
def test_every_format_gives_the_same_captions(folder, name, compressed):
    if compressed:
        captions = load(folder, gzip.compress(FORMATS[name].encode()), file="captions.gz")
    else:
        captions = load(folder, FORMATS[name])
    assert as_dict(captions) == {
        "a.png": (10, TEXTS["a.png"]),
        "b.png": (0, TEXTS["b.png"]),
        "c.png": (20, TEXTS["c.png"]),
    }
    assert captions.files == ["a.png", "b.png", "c.png"] and not captions.skipped
    assert len(captions) == 3


def test_a_csv_caption_may_have_several_lines_and_errors_name_the_line_of_the_file(folder):
    text = 'image,caption\na.png,"one\ntwo"\nb.png,three\n'
    assert load(folder, text).texts == [["one\ntwo"], ["three"]]
    with pytest.raises(ValueError, match=r"captions\.txt, line 5: must have 2 columns.*; got 3"):
        load(folder, f"{text}c.png,four,five\n")


def test_a_zip_file_is_read_like_a_folder(folder):
    with zipfile.ZipFile(folder / "a.ZIP", "w") as file:
        for path in sorted((folder / "images").rglob("*.png")):
            file.write(path, path.relative_to(folder).as_posix())
        file.writestr("__MACOSX/images/._a.png", b"x")
        file.writestr("notes.txt", b"x")
    text = folder / "captions.json"
    text.write_text(json.dumps(TEXTS))
    captions = load_captions(str(folder / "a.ZIP"), str(text), str(folder / "names.txt"))
    assert as_dict(captions) == as_dict(load(folder, tokens(TEXTS))) and not captions.skipped


def test_a_list_of_names_selects_the_images(folder):
    (folder / "few.txt").write_text("c.png\nb.png\n")
    captions = load(folder, tokens(TEXTS | {"gone.png": ["x"]}), "few.txt")
    assert captions.files == ["b.png", "c.png"]
    assert captions.skipped == {"gone.png": "no such image"}
    assert captions.name == f"{folder / 'images'} ({folder / 'few.txt'})"


def test_without_a_list_the_hash_of_the_file_name_splits(tmp_path):
    names = [f"{number}.png" for number in range(90)]
    texts = {name: [f"caption of {name}"] for name in names}
    (tmp_path / "images").mkdir()
    for number, name in enumerate(names):
        if number % 9:  # the others have no image
            (tmp_path / "images" / name).write_bytes(image(number))
        if number % 7 == 0:
            del texts[name]
    expected = {split: {} for split in SPLITS}
    skipped = {split: {} for split in SPLITS}
    for number, name in enumerate(names):
        split = hash_split(name)
        if number % 9 and number % 7:
            expected[split][name] = (number, [f"caption of {name}"])
        elif number % 9:
            skipped[split][name] = "no caption"
        elif number % 7:
            skipped[split][name] = "no such image"
    (tmp_path / "a.json").write_text(json.dumps(texts))
    for split in SPLITS:
        captions = load_captions(tmp_path / "images", tmp_path / "a.json", split=split)
        assert as_dict(captions) == expected[split] and len(captions) > 3
        assert captions.skipped == skipped[split]
        assert captions.name == f"{tmp_path / 'images'} ({split})"
    assert {reason for part in skipped.values() for reason in part.values()} == {
        "no caption",
        "no such image",
    }


def test_skipped_images_and_captions_are_reported(folder):
    (folder / "images/broken.png").write_bytes(image(7)[:-30])
    (folder / "images/text.jpg").write_bytes(b"text")
    (folder / "images/silent.png").write_bytes(image(8))
    (folder / "images/bare.png").write_bytes(image(9))
    names = [*TEXTS, "broken.png", "text.jpg", "silent.png", "bare.png", "gone.png", "lost.png"]
    (folder / "names.txt").write_text("\n".join(names))
    texts = {name: ["x"] for name in ("broken.png", "text.jpg", "gone.png")}
    texts |= TEXTS | {"silent.png": ["", " "], "c.png": [" ", "ein Hund"]}
    captions = load(folder, tokens(texts))
    assert captions.files == ["a.png", "b.png", "c.png"]
    assert captions.texts[2] == ["ein Hund"]
    reason = captions.skipped.pop("broken.png")
    assert "truncated" in reason
    assert captions.skipped == {
        "gone.png": "no such image",
        "lost.png": "no such image",
        "silent.png#0": "empty caption",
        "silent.png#1": "empty caption",
        "c.png#0": "empty caption",
        "silent.png": "no caption",
        "bare.png": "no caption",
        "text.jpg": "not an image",
    }
    assert str(captions) == (
        f"{folder / 'images'} ({folder / 'names.txt'}): 3 images with 4 captions; skipped: "
        "8 (gone.png: no such image, lost.png: no such image, c.png#0: empty caption, "
        "silent.png#0: empty caption, silent.png#1: empty caption, … and 3 more)"
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (table({"a.png": ["x", " "]}), "a.png (line 3)"),
        (json.dumps({"a.png": ["x", " "]}), "a.png#1"),
        (json.dumps(coco({"a.png": ["x", " "]})), "a.png (annotations[1])"),
    ],
)
def test_an_empty_caption_is_reported_with_its_line_or_index(folder, text, key):
    (folder / "names.txt").write_text("a.png")
    assert load(folder, text).skipped == {key: "empty caption"}


def test_an_annotation_of_an_unknown_image_is_skipped(folder):
    content = coco(TEXTS)
    content["annotations"] += [{"image_id": number, "caption": "x"} for number in range(20)]
    (folder / "a.json").write_text(json.dumps(content))
    captions = load_captions(folder / "images", folder / "a.json")
    keys = [key for key in map("image_id {}".format, range(20)) if hash_split(key) == "train"]
    assert 0 < len(keys) < 20 and captions.skipped == dict.fromkeys(keys, "no such image")


def test_a_source_without_captions_gives_the_reason(folder):
    with pytest.raises(ValueError, match=r"has no image with a caption; skipped: 4 \(.*no cap"):
        load(folder, tokens({"gone.png": ["x"]}))
    (folder / "names.txt").write_text("\n")
    with pytest.raises(ValueError, match="has no image with a caption; skipped: none"):
        load(folder, tokens(TEXTS))


# names with folders


def test_folders_in_a_name_must_match_the_path(folder):
    for path in ("cats/1.png", "dogs/1.png"):
        (folder / "images" / path).parent.mkdir()
        (folder / "images" / path).write_bytes(image(50 + len(path) + (path[0] == "d")))
    texts = {
        "dogs/1.png": ["dog"],
        "images/cats/1.png": ["cat"],
        "apes/1.png": ["ape"],
        "two/x/c.png": ["c"],
        "images/a.png": ["a"],
    }
    (folder / "names.txt").write_text("cats/1.png\n/dogs/1.png\na.png\nx/c.png\napes/1.png\n1.png")
    captions = load(folder, tokens(texts))
    assert as_dict(captions) == {
        "dogs/1.png": (61, ["dog"]),
        "images/a.png": (10, ["a"]),
        "images/cats/1.png": (60, ["cat"]),
        "two/x/c.png": (20, ["c"]),
    }
    assert captions.skipped == {
        "apes/1.png": "no such image",
        "1.png": "2 images of that name",
    }


def test_captions_of_two_names_of_one_image_are_joined(folder):
    captions = load(folder, tokens({"a.png": ["x"], "images/a.png": ["y"]} | {"b.png": ["z"]}))
    assert captions.files == ["a.png", "b.png"] and captions.texts == [["x", "y"], ["z"]]


def test_an_image_whose_name_is_not_utf8_is_skipped(folder):
    name = os.fsencode(folder / "images") + b"/\xff.png"
    try:
        Path(os.fsdecode(name)).write_bytes(image(3))
    except OSError:
        pytest.skip("this file system needs UTF-8")
    captions = load(folder, tokens(TEXTS))
    assert len(captions) == 3 and captions.skipped == {r"'\udcff.png'": "a name that is not UTF-8"}


# errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a.png#0\tx\nb.png#0\t\xff\n", "line 2: is not UTF-8 text"),
        ("a.png#0\tx\nb.png\ty", r"line 2: must be NAME#NUMBER<TAB>CAPTION; got 'b.png\\ty'"),
        ("\na.png#0\tx\nb.png#1 y", "line 3: must be NAME#NUMBER<TAB>CAPTION; got 'b.png#1 y'"),
        ('image,caption\na.png,"x\n', "line 2: unexpected end of data"),
        ('image,caption\n\na.png,"x"y\n', "line 3: ',' expected after"),
        ("image,caption\na.png\n", "line 2: must have 2 columns, as line 1 has; got 1"),
        ('{"a.png": ["x"],\n"b.png" ["y"]}', r"line 2: is not JSON \(Expecting ':' delimiter\)"),
        (
            '{"a.png": ' + "[" * 10**5 + "]" * 10**5 + "}",
            "is damaged or not supported: maximum rec",
        ),
        ('{"a.png": ' + "9" * 5000 + "}", "is damaged or not supported: Exceeds the limit"),
        (
            '{"a.png": "x"}',
            "must have a list of texts; got 'a.png': 'x'; known formats: NAME",
        ),
        ('{"a.png": ["x", 3]}', r"a name must have a list of texts; got 'a.png': \['x', 3\]"),
        (r'{"a.png": ["\ud83d"]}', r"a list of texts; got 'a.png': \['.ud83d'\]"),
        (r'{"\ud83d.png": ["x"]}', r"a list of texts; got '.ud83d.png': \['x'\]"),
        ('{"images": 3, "annotations": []}', "images must be a list; got 3"),
        ('{"images": [3], "annotations": []}', r"images\[0\] must have id, a number, .*; got 3"),
        (
            '{"images": [{"id": [1], "file_name": "a.png"}], "annotations": []}',
            r"images\[0\] must have id, a number, and file_name, a text; got {'id': \[1\]",
        ),
        (
            '{"images": [], "annotations": [{"image_id": 1, "caption": "x"}, {"image_id": 1}]}',
            r"annotations\[1\] must have image_id, a number, and caption, a text; got {'image_id'",
        ),
    ],
)
def test_a_broken_file_is_named_with_the_line(folder, text, message):
    with pytest.raises(ValueError, match=message) as raised:
        load(folder, text)
    assert str(raised.value).startswith(str(folder / "captions.txt"))


@pytest.mark.parametrize(
    "text", ["", "a.png\tx", "a.png,x", '["a.png"]', "image,text\na.png,x", '"a,image",caption\n']
)
def test_an_unknown_format_is_refused_with_the_known_ones(folder, text):
    first = re.escape(repr(text.split("\n")[0]))
    with pytest.raises(ValueError, match=rf"known: NAME#NUM.*CSV.*JSON.*its first line is {first}"):
        load(folder, text)


def test_missing_files_are_named(folder):
    text = folder / "a.json"
    text.write_text(json.dumps(TEXTS))
    with pytest.raises(FileNotFoundError, match="no such file or folder: .*gone"):
        load_captions(folder / "gone", text)
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.json"):
        load_captions(folder / "images", folder / "gone.json")
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.txt"):
        load_captions(folder / "images", text, folder / "gone.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hf:flickr", "a.json"), r"unknown source 'hf:flickr'; known: a folder, .*zip.*tfds:coco"),
        ((7, "a.json"), "unknown source 7; known: a folder"),
        ((__file__, "a.json"), r"unknown source '.*test_sources\.py'; known: a folder"),
        (("images",), "captions must be a file with those of images; got captions=None"),
        (("images", ""), "captions must be a file with those of images; got captions=''"),
        (("images", "a.json", None, "dev"), "unknown split 'dev'; known: train, validation, te"),
        (("tfds:coco_captions", "a.json"), "has its captions and splits; got captions='a.json'"),
        (("tfds:coco_captions", None, "a.txt"), "has its captions and splits; .*names='a.txt'"),
    ],
)
def test_an_invalid_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_captions(*arguments)


# real data


@pytest.mark.skipif(not FLICKR.exists(), reason="needs Flickr8k")
def test_flickr8k_is_read_as_published():
    captions = load_captions(
        FLICKR / "flickr8k_160.zip", FLICKR / "captions.token.txt.gz", FLICKR / "test.txt"
    )
    assert isinstance(captions, Captions)
    assert captions.skipped == {"2258277193_586949ec62.jpg.1": "no such image"}
    assert len(captions) == 1000 and {len(texts) for texts in captions.texts} == {5}
    assert captions.texts[captions.files.index("1056338697_4f7d7ce270.jpg")][0] == (
        "A blond woman in a blue shirt appears to wait for a ride ."
    )
