"""The requests and answers of the friendly API, for their checks and for the OpenAPI page."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str | list[str], Field(description="one text, or a list of texts")]
Image = Annotated[str | list[str], Field(description="one image file in base64, or a list of them")]
Count = Annotated[int, Field(ge=1, le=1000)]
Length = Annotated[int, Field(ge=1, le=10_000, description="in tokens")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Matrix = list[list[float]]


class ModelRequest(BaseModel):
    """What all requests have."""

    model_config = ConfigDict(extra="forbid")
    model: str | None = Field(None, description="needed if several models could answer")


class TranslateRequest(ModelRequest):
    """Translates a text, or each text of a list."""

    text: Text
    n_best: Count = Field(1, description="at most as many as the model was exported with")
    alignment: bool = Field(False, description="attention from each target to each source piece")
    attention: bool = Field(False, description="the same for each block and head")


class ClassifyRequest(ModelRequest):
    """The most likely classes of images or texts, one or a list.

    An image may also be the body, with Content-Type: image/*, and the other fields in the query.
    """

    image: Image | None = None
    text: Text | None = None
    top_k: Count = Field(5, description="at most as many as the model was exported with")
    rollout: bool = Field(False, description="attention rollout of an image")


class CaptionRequest(ModelRequest):
    """Describes an image, or each image of a list, in words.

    An image may also be the body, with Content-Type: image/*, and the other fields in the query.
    """

    image: Image
    n_best: Count = Field(1, description="at most as many as the model was exported with")
    attention: bool = Field(False, description="attention from each piece to each image region")


class GenerateRequest(ModelRequest):
    """A text that is continued."""

    text: str
    max_length: Length = 64
    stream: bool = Field(True, description="server-sent events instead of one JSON object")


class DrawRequest(ModelRequest):
    """Draws images of a text, or of each text of a list."""

    text: Text
    count: Count = Field(1, description="at most as many as the model was exported with")
    seed: Seed | None = Field(None, description="the same images each time; without it others")


class Candidate(BaseModel):
    text: str
    score: float | None


class Generated(Candidate):
    n_best: list[Candidate]
    pieces: list[str] | None = None


class Translation(Generated):
    truncated: bool
    source_pieces: list[str] | None = None
    alignment: Matrix | None = Field(None, description="(T, S)")
    attention: list[list[Matrix]] | None = Field(None, description="(blocks, heads, T, S)")


class ClassScore(BaseModel):
    label: str
    score: float | None


class Prediction(BaseModel):
    classes: list[ClassScore]
    is_readable: bool | None = None
    truncated: bool | None = None
    rollout: Matrix | None = Field(None, description="(rows, columns)")


class Caption(Generated):
    is_readable: bool
    weights: list[Matrix] | None = Field(None, description="(T, rows, columns)")


class DrawnImage(BaseModel):
    image: str = Field(description="a PNG file in base64")
    score: float | None = Field(description="its log-probability")


class Drawing(BaseModel):
    images: list[DrawnImage] = Field(description="the most likely first")
    truncated: bool


class Answer(BaseModel):
    """What all answers have."""

    model: str
    version: int


class TranslateAnswer(Answer):
    translations: list[Translation]


class ClassifyAnswer(Answer):
    predictions: list[Prediction]


class CaptionAnswer(Answer):
    captions: list[Caption]


class DrawAnswer(Answer):
    drawings: list[Drawing]


class GenerateAnswer(Answer):
    text: str


class ModelInfo(BaseModel):
    name: str
    kind: str | None
    version: int | None
    state: str
    explains: bool
    streams: bool
    n_best: int | None = Field(None, description="the largest n_best of a request")
    top_k: int | None = Field(None, description="the largest top_k of a request")
    count: int | None = Field(None, description="the largest count of images of a request")
    class_names: list[str] | None = None
    resize: str | None = Field(None, description="how images become squares: crop, pad or squash")
    crop_ratio: float | None = Field(None, description="the part of the square that is read")


class ModelsAnswer(BaseModel):
    models: list[ModelInfo]
