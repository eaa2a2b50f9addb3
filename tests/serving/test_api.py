import base64
import json

import pytest

PNG = b"\x89PNG and more"
IMAGE = base64.b64encode(PNG).decode()


def test_models_are_listed_with_what_they_can_do(client, repository):
    models = {model["name"]: model for model in client.get("/models").json()["models"]}
    assert list(models) == repository.names()
    assert models["translator"] == {
        "name": "translator",
        "kind": "translator",
        "version": 3,
        "state": "AVAILABLE",
        "explains": True,
        "streams": False,
        "n_best": 2,
    }
    counts = {name: (x.get("n_best"), x.get("top_k")) for name, x in models.items()}
    assert counts["captioner"] == (2, None) and counts["generator"] == (None, None)
    assert counts["classifier"] == counts["text_classifier"] == (None, 3)
    assert models["classifier"]["class_names"] == ["cat", "dog", "cow"]
    assert models["generator"]["streams"] and models["captioner"]["explains"]
    assert not models["text_classifier"]["explains"]
    repository.is_ready = False
    states = {model["state"] for model in client.get("/models").json()["models"]}
    assert states == {"LOADING"}


def test_one_text_or_a_list_is_translated(client):
    answer = client.post("/translate", {"text": "a b"})
    assert answer.status_code == 200, answer.text
    best = [{"text": "A B", "score": -0.2}]
    row = {"text": "A B", "score": -0.2, "n_best": best, "truncated": False}
    assert answer.json() == {"model": "translator", "version": 3, "translations": [row]}
    answer = client.post("/translate", {"text": ["a", "b"], "n_best": 2, "model": "translator"})
    first, second = answer.json()["translations"]
    assert (first["text"], second["text"]) == ("A", "B")
    assert first["n_best"] == [{"text": "A", "score": -0.2}, {"text": "A", "score": None}]


def test_more_than_the_model_was_exported_with_is_refused(client, repository):
    def refusal(path, request):
        answer = client.post(path, request)
        assert answer.status_code == 400, answer.text
        return answer.json()["error"]

    error = "n_best must be at most 2 for {}: export it with --n-best N"
    assert refusal("/translate", {"text": "a", "n_best": 3}) == error.format("translator")
    assert refusal("/caption", {"image": IMAGE, "n_best": 3}) == error.format("captioner")
    request = {"image": IMAGE, "top_k": 4}
    error = "top_k must be at most 3 for classifier: "
    assert refusal("/classify", request) == error + "it has no more classes"
    repository.models["classifier"].options["class_names"] = ["cat", "dog", "cow", "hen"]
    assert refusal("/classify", request) == error + "export it with --top-k N"
    answer = client.post("/classify", {"image": IMAGE}).json()  # 5, the default, is not asked for
    assert len(answer["predictions"][0]["classes"]) == 3


def test_attention_weights_have_no_padding(client):
    request = {"text": ["a", "b c"], "alignment": True}
    first, second = client.post("/translate", request).json()["translations"]
    assert first["pieces"] == ["a"] and first["alignment"] == [[0.3333]]
    assert second["source_pieces"] == ["b", "c"] and second["alignment"] == [[0.3333] * 2] * 2
    request = {"text": ["a", "b c"], "attention": True}
    first, second = client.post("/translate", request).json()["translations"]
    assert first["attention"] == [[[[0.3333]]] * 4] * 2  # blocks, heads, T, S
    assert second["alignment"] == [[0.3333] * 2] * 2


def test_a_model_without_attention_weights_says_so(client, repository):
    model = repository.models["translator"]
    del model.signatures["explain"]
    answer = client.post("/translate", {"text": "a", "attention": True})
    assert answer.status_code == 400 and "no attention weights" in answer.json()["error"]
    del model.signatures["serving_default"].outputs["alignment"]
    answer = client.post("/translate", {"text": "a", "alignment": True})
    assert answer.status_code == 400 and "no attention weights" in answer.json()["error"]


def test_images_are_base64_or_the_body(client):
    expected = {"classes": [{"label": "cat", "score": 0.7}], "is_readable": True}
    answer = client.post("/classify", {"image": IMAGE, "top_k": 1}).json()
    assert answer == {"model": "classifier", "version": 3, "predictions": [expected]}
    headers = {"Content-Type": "image/png"}
    raw = client.post("/classify?top_k=1&model=classifier", content=PNG, headers=headers)
    assert raw.json() == answer
    url = client.post("/classify", {"image": [f"data:image/png;base64,{IMAGE}"], "top_k": 1})
    assert url.json() == answer


def test_an_unreadable_image_has_no_classes(client):
    answer = client.post("/classify", {"image": [IMAGE, "AAAA"]}).json()
    first, second = answer["predictions"]
    assert len(first["classes"]) == 3 and second == {"classes": [], "is_readable": False}


def test_the_rollout_of_an_image(client):
    answer = client.post("/classify", {"image": IMAGE, "rollout": True}).json()
    assert answer["predictions"][0]["rollout"] == [[0.5, 0.5]] * 3


def test_texts_are_classified(client):
    answer = client.post("/classify", {"text": ["good", "bad"], "top_k": 2}).json()
    assert answer["model"] == "text_classifier" and len(answer["predictions"]) == 2
    assert [x["label"] for x in answer["predictions"][0]["classes"]] == ["cat", "dog"]


def test_captions_with_the_regions_of_their_pieces(client):
    answer = client.post("/caption", {"image": IMAGE}).json()["captions"]
    best = [{"text": "A DOG", "score": -0.2}]
    assert answer == [{"text": "A DOG", "score": -0.2, "n_best": best, "is_readable": True}]
    headers = {"Content-Type": "image/jpeg"}
    answer = client.post("/caption?attention=true", content=PNG, headers=headers).json()
    (caption,) = answer["captions"]
    assert caption["pieces"] == ["a", "dog"] and caption["weights"] == [[[0.25] * 2] * 2] * 2
    (caption,) = client.post("/caption", {"image": "AAAA"}).json()["captions"]
    assert caption["is_readable"] is False


@pytest.mark.parametrize("path", ["/classify", "/caption"])
def test_a_body_that_is_no_image_is_refused(path, client):
    def refusal(content, kind="image/png", query=""):
        answer = client.post(path + query, content=content, headers={"Content-Type": kind})
        assert answer.status_code == 400 and "\n" not in answer.json()["error"]
        return answer.json()["error"]

    rule = "the body must be a JPEG, PNG, GIF, BMP or WebP file; "
    assert refusal(b"no image") == rule + "it cannot be read"
    assert refusal(b"") == rule + "it is empty"
    assert refusal(PNG, query="?topk=3").startswith("unknown field topk; known: model, image, ")
    hint = "send an image with Content-Type: image/png or the like (curl --data-binary @file)"
    for start in (PNG, b"\xff\xd8\xff\xe0", b"GIF89a", b"BM6", b"RIFF1234WEBP"):
        assert refusal(start, "application/x-www-form-urlencoded") == hint
    assert refusal(b"--limit\r\n", "multipart/form-data; boundary=limit") == hint
    assert refusal(b"", "application/json") == "the body must be JSON in UTF-8; it is empty"


def test_images_are_drawn_by_a_seed_or_without(client, repository):
    def drawn(**request):
        answer = client.post("/draw", request)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "text_to_image"
        rows = answer.json()["drawings"]
        return [[base64.b64decode(x["image"]).decode() for x in row["images"]] for row in rows]

    assert drawn(text="a cat") == [["a cat 1, seed 0"]]
    assert drawn(text=["a", "b"], seed=7) == [["a 1, seed 7"], ["b 1, seed 7"]]
    assert drawn(text="a", count=2) == [["a 1, seed 0", "a 2, seed 0"]]
    row = client.post("/draw", {"text": "a " * 20, "count": 2}).json()["drawings"][0]
    assert row["truncated"] and [x["score"] for x in row["images"]] == [-3.5, None]
    (model,) = [x for x in client.get("/models").json()["models"] if x["kind"] == "text_to_image"]
    assert model["count"] == 2
    error = client.post("/draw", {"text": "a", "count": 3}).json()["error"]
    assert error == "count must be at most 2 for text_to_image: export it with --n-best N"
    del repository.models["text_to_image"].signatures["seeded"]
    error = client.post("/draw", {"text": "a", "seed": 0}).json()["error"]
    assert error == "text_to_image takes no seed: export it with --kind sample"


def test_a_text_is_generated_at_once_or_as_events(client):
    request = {"text": "one two three", "max_length": 2}
    answer = client.post("/generate", request | {"stream": False}).json()
    assert answer == {"model": "generator", "version": 3, "text": "one two "}
    answer = client.post("/generate", request)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(part[6:]) for part in answer.text.split("\n\n") if part]
    assert events[:2] == [{"text": "one "}, {"text": "two "}]
    done = {"done": True, "text": "one two ", "model": "generator", "version": 3}
    assert events[2:] == [done]
    assert client.post("/generate", {"text": ""}).text.count("data: ") == 1


def test_an_error_before_the_first_part_has_its_status(client, repository, overloaded):
    repository.models["generator"].error = overloaded
    assert client.post("/generate", {"text": "a"}).status_code == 429


@pytest.mark.parametrize("stream", [True, False])
def test_a_text_has_a_deadline_before_its_first_part(stream, client, repository):
    model = repository.models["generator"]
    model.may_run.clear()
    request = {"text": "a", "stream": stream}
    answer = client.post("/generate", request, headers={"X-Request-Timeout": "0.05"})
    model.may_run.set()
    assert answer.status_code == 504 and client.app.state.active.count == 0


def test_an_error_after_the_first_part_is_the_last_event(client, repository, overloaded):
    def stream(*_):
        yield "part"
        raise overloaded

    repository.models["generator"].stream = stream
    answer = client.post("/generate", {"text": "a"})
    assert answer.text.endswith('data: {"error":"' + str(overloaded) + '"}\n\n')


@pytest.mark.parametrize(
    "path, request_, message",
    [
        ("/translate", {}, "text is missing; got no fields"),
        ("/translate", {"txt": "a", "n_best": 1}, "text is missing; got txt, n_best"),
        ("/translate", {"text": 1}, "text: Input should be a valid string"),
        ("/translate", {"text": [1]}, "text"),
        ("/translate", {"text": "a", "n_best": 0}, "n_best: Input should be greater than or equal"),
        ("/translate", {"text": "a", "n_best": "2"}, "n_best: Input should be a valid integer"),
        (
            "/translate",
            {"text": "a", "nbest": 2},
            "unknown field nbest; known: model, text, n_best, ",
        ),
        ("/translate", {"text": "a", "model": "classifier"}, "must be a translator for this req"),
        ("/translate", {"text": "\ud800"}, "lone surrogates"),
        ("/classify", {}, "either image or text"),
        ("/classify", {"txt": "a"}, "unknown field txt; known: model, image, text, top_k"),
        ("/classify", {"image": "a", "text": "a"}, "either image or text"),
        ("/classify", {"image": "%"}, "image must be base64"),
        ("/classify", {"text": "a", "rollout": True}, "no attention weights"),
        ("/draw", {"text": "a", "seed": -1}, "seed: Input should be greater than or equal to 0"),
        ("/draw", {"text": "a", "seed": 2**31}, "seed: Input should be less than 2147483648"),
        ("/draw", {"text": "a", "seed": 1.5}, "seed: Input should be a valid integer"),
        ("/generate", {"text": ["a"]}, "text: Input should be a valid string"),
        ("/generate", {"text": "a", "max_length": 10**9}, "max_length: Input should be less"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(client, path, request_, message):
    answer = client.post(path, content=json.dumps(request_))
    assert answer.status_code == 400 and list(answer.json()) == ["error"]
    assert message in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_the_model_must_be_clear(client, repository):
    assert client.post("/translate", {"text": "a", "model": "x"}).status_code == 404
    models = repository.models
    models["other"] = models["translator"]
    answer = client.post("/translate", {"text": "a"})
    assert answer.status_code == 400 and "must be one of" in answer.json()["error"]
    del models["other"], models["translator"]
    answer = client.post("/translate", {"text": "a"})
    assert answer.status_code == 404 and answer.json()["error"] == "no translator is served"
    repository.is_ready = False
    assert client.post("/translate", {"text": "a"}).status_code == 503


def test_openapi_describes_every_path(client):
    schema = client.get("/openapi.json").json()
    posts = {"/translate", "/classify", "/caption", "/draw", "/generate"}
    assert posts | {"/models", "/healthz", "/readyz", "/metrics"} == set(schema["paths"])
    operations = [x for methods in schema["paths"].values() for x in methods.values()]
    assert len({operation["description"] for operation in operations}) == len(operations)
    assert schema["paths"]["/translate"]["post"]["description"].startswith("Translates a text")
    body = schema["paths"]["/classify"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "image/*"}
    assert "top_k" in body["application/json"]["schema"]["properties"]
