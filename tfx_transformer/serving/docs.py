"""The page /docs: the OpenAPI schema as plain HTML, without scripts."""

import json
from html import escape
from typing import Any

STYLE = """body { max-width: 50em; margin: 2em auto; padding: 0 1em; font: 1em/1.5 sans-serif }
pre { overflow: auto; padding: 1em; background: #8882 }
table { border-collapse: collapse } td { padding: 0.1em 1em 0.1em 0; vertical-align: top }"""


def show_docs(schema: dict[str, Any]) -> str:
    """All paths of an OpenAPI schema with the fields of their requests and answers."""
    info, known = schema["info"], schema.get("components", {}).get("schemas", {})
    parts = [f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"]
    parts.append(f"<p>{escape(info['description'])} <a href='openapi.json'>openapi.json</a></p>")
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            answer = operation["responses"]["200"]
            for title, body in (("request", operation.get("requestBody", {})), ("answer", answer)):
                content = body.get("content", {}).get("application/json", {})
                fields = resolve(content.get("schema", {}), known).get("properties", {})
                if fields:
                    rows = "".join(show_field(name, x, known) for name, x in fields.items())
                    parts.append(f"<h3>{title}</h3><table>{rows}</table>")
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style>{''.join(parts)}</html>"
    )


def show_field(name: str, field: dict[str, Any], known: dict[str, Any]) -> str:
    default = f" = {json.dumps(field['default'])}" if field.get("default") is not None else ""
    text = escape(field.get("description", ""))
    return (
        f"<tr><td><code>{escape(name)}{escape(default)}</code>"
        f"<td>{escape(show_type(field, known))}<td>{text}</tr>"
    )


def show_type(field: dict[str, Any], known: dict[str, Any]) -> str:
    """The type of a field in the words of JSON."""
    field = resolve(field, known)
    if "anyOf" in field:
        return " or ".join(show_type(x, known) for x in field["anyOf"])
    if field.get("type") == "array":
        return f"[{show_type(field['items'], known)}]"
    if "properties" in field:
        inner = (f"{name}: {show_type(x, known)}" for name, x in field["properties"].items())
        return "{" + ", ".join(inner) + "}"
    return field.get("type", "any")


def resolve(field: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return known[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
