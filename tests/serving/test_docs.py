def test_the_page_names_every_path_and_field(client):
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html") and "<script" not in answer.text
    schema = client.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"<h2>{method.upper()} {path}</h2>" in answer.text
    assert "n_best = 1" in answer.text and "text: string" in answer.text


def test_text_is_escaped():
    from tfx_transformer.serving.docs import show_docs

    info = {"title": "<b>", "version": "1", "description": "a & b"}
    page = show_docs({"info": info, "paths": {}})
    assert "&lt;b&gt;" in page and "a &amp; b" in page and "<b>" not in page
