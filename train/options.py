"""Options of models and decoders, read from the source code of their classes.

A model's options on the command line are the arguments of its constructor, a decoder's are its
fields. Importing these classes imports TensorFlow, which takes seconds; parsing their files does
not, so `--help` and early errors come at once.
"""

import ast
import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import tfx_transformer

PACKAGE = Path(tfx_transformer.__file__).parent
MODELS = next(  # beside the package in a checkout, inside it once installed
    folder for folder in (PACKAGE / "models", PACKAGE.parent / "models") if folder.is_dir()
)
DECODERS = {"greedy": "greedy", "beam": "beam", "sample": "sampling"}  # kind: file in decoding/


@dataclass(frozen=True)
class Option:
    """An option of a class: its type for the command line, and the text of its docstring."""

    name: str
    type: Any
    help: str


@functools.cache
def model_options(name: str) -> dict[str, Option]:
    """The constructor arguments of a model: of the class with `variants` in models/<name>.py."""
    path = MODELS / f"{name}.py"
    known = sorted(
        x.stem for x in MODELS.glob("*.py") if "\n    variants = " in x.read_text("utf-8")
    )
    if name not in known:
        raise ValueError(f"unknown model {name!r}; known: {', '.join(known)}")
    found = [
        node for node in _classes(path) if any("variants" in ast.unparse(x)[:9] for x in node.body)
    ]
    function = next(x for x in found[-1].body if isinstance(x, ast.FunctionDef))  # __init__
    arguments = [*function.args.args[1:], *function.args.kwonlyargs]
    return _options([(x.arg, x.annotation) for x in arguments], found[-1])


@functools.cache
def decoder_options(kind: str) -> dict[str, Option]:
    """The fields of a decoder and of the base class of all decoders."""
    options: dict[str, Option] = {}
    for file in ("decoder", DECODERS[kind]):
        node = next(x for x in _classes(PACKAGE / f"decoding/{file}.py") if "Decoder" in x.name)
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign)]
        options |= _options([(x.target.id, x.annotation) for x in fields], node)  # type: ignore[union-attr]
    return options


def _classes(path: Path) -> list[ast.ClassDef]:
    return [x for x in ast.parse(path.read_text("utf-8")).body if isinstance(x, ast.ClassDef)]


def _options(annotated, node: ast.ClassDef) -> dict[str, Option]:
    help = _argument_help(ast.get_docstring(node) or "")
    names = {"Any": Any, "Literal": Literal, "Sequence": typing.Sequence}
    options = {}
    for name, annotation in annotated:
        own = Any if annotation is None else eval(ast.unparse(annotation), names)  # noqa: S307
        kind = _command_line_type(own)
        if kind is not None:
            options[name] = Option(name, kind, help.get(name, ""))
    return options


def _argument_help(docstring: str) -> dict[str, str]:
    """The texts of the Args section: `name: text` or `name, name: text`, over several lines."""
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    help = {}
    for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {6,}.*)*)", section, flags=re.M):
        for name in names.split(","):
            help[name.strip()] = " ".join(text.split())
    return help


def _command_line_type(annotation) -> Any:
    """The part of a type that can be typed on a command line; None if there is none."""
    if isinstance(annotation, types.UnionType):
        parts = [_command_line_type(part) for part in typing.get_args(annotation)]
        parts = [part for part in parts if part is not None]
        return functools.reduce(lambda a, b: a | b, parts) if parts else None
    if annotation in (Any, type(None)) or typing.get_origin(annotation) in (dict, list):
        return None
    return annotation


def default_hint(unset: str) -> Callable[[str], str]:
    """The end of a help text: the default value, or what None means."""
    return lambda default: f"(default: {unset if default == 'None' else default})"


def options_class(
    name: str, options: dict[str, Option], bases=(), unset="not set", **defaults
) -> type:
    """A frozen dataclass with a field for each option; None means that an option is not set.

    The help says `unset` for None.
    """
    fields = []
    for option in options.values():
        optional: Any = option.type | None
        hint = tyro.conf.arg(help=option.help, help_behavior_hint=default_hint(unset))
        kind = Annotated[optional, hint]
        default = dataclasses.field(default=defaults.get(option.name))
        fields.append((option.name, kind, default))
    return dataclasses.make_dataclass(name, fields, bases=bases, frozen=True)


def given(options) -> dict[str, Any]:
    """The fields of a dataclass that are set: neither None nor a flag that is off."""
    values = {x: getattr(options, x.name) for x in dataclasses.fields(options)}
    return {x.name: v for x, v in values.items() if v is not None and (v or x.default is not False)}


AS_IN_RECIPE = "as in the recipe"
AS_IN_RECIPE_HINT = tyro.conf.arg(help_behavior_hint=default_hint(AS_IN_RECIPE))


@dataclass(frozen=True)
class DecoderKind:
    """How sequences are decoded."""

    kind: Annotated[Literal["greedy", "beam", "sample"] | None, AS_IN_RECIPE_HINT] = None
    """The decoder: the most likely token at each step, beam search, or sampling."""


ALL_DECODER_OPTIONS = functools.reduce(lambda a, b: a | b, map(decoder_options, DECODERS))
if typing.TYPE_CHECKING:
    DecodingOptions = Any
    RunDecodingOptions = Any
else:
    DecodingOptions = options_class("DecodingOptions", ALL_DECODER_OPTIONS, (DecoderKind,))
    RunDecodingOptions = options_class(
        "RunDecodingOptions", ALL_DECODER_OPTIONS, (DecoderKind,), unset=AS_IN_RECIPE
    )


@dataclass(frozen=True)
class PipelineOptions(RunDecodingOptions):  # type: ignore[misc]
    """How a trained model is used; options that are not given are as in its recipe."""

    max_length: Annotated[int | None, AS_IN_RECIPE_HINT] = None
    """Maximum length of the output in tokens."""
    jit_compile: bool = False
    """Compile with XLA: faster, but the first call of each shape takes seconds."""


# positional arguments of commands
RunFolder = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
Model = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
Texts = Annotated[
    tyro.conf.Positional[tuple[str, ...]],
    tyro.conf.arg(metavar="[SENTENCE …]", help_behavior_hint="(optional)"),
]
ImageFiles = Annotated[
    tyro.conf.Positional[tuple[str, ...]],
    tyro.conf.arg(metavar="FILE …", help_behavior_hint="(required)"),
]
Options = Annotated[PipelineOptions, tyro.conf.arg(name="")]  # of a command: --max-length, …
NO_OPTIONS = PipelineOptions()


def decoder_spec(recipe: DecodingOptions, **changes) -> dict[str, Any]:
    """The options of a decoder, for DECODERS.make: those of a recipe with some changes.

    Options of the recipe that another kind of decoder does not have are dropped; such options among
    the changes are an error. A beam is at least as wide as n_best.
    """
    own = given(recipe)
    kind = changes.get("kind") or own["kind"]
    known = {"kind", *decoder_options(kind)}
    for name in changes.keys() - known:
        raise ValueError(f"the decoder {kind} has no option {name}; got {name}={changes[name]!r}")
    spec = {name: value for name, value in own.items() if name in known} | changes | {"kind": kind}
    if kind == "beam" and "n_best" in changes and "width" not in changes:
        spec["width"] = max(spec.get("width", 4), changes["n_best"])
    return spec
