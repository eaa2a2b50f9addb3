"""Registries: classes by name, built from a name or a dict of options."""

import inspect
from typing import Any

Spec = str | dict[str, Any]  # "multi_head" or {"kind": "grouped_query", "num_kv_heads": 2}


class Registry(dict):
    """A dict of classes by name; its errors list the known names."""

    def __init__(self, what: str, entries: dict[str, type]):
        super().__init__(entries)
        self.what = what

    def find(self, spec: Spec) -> tuple[Any, dict[str, Any]]:
        """A spec → its class and options. A spec is plain data, so it can be saved."""
        options = dict(spec) if isinstance(spec, dict) else {"kind": spec}
        kind = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in self:
            raise ValueError(f"unknown {self.what} {kind!r}; known: {', '.join(sorted(self))}")
        return self[kind], options

    def make(self, spec: Spec, **shared) -> Any:
        """Builds the class of a spec; options in the spec override shared ones."""
        part, options = self.find(spec)
        try:
            inspect.signature(part).bind(**shared | options)
        except TypeError as error:  # a missing or an unknown argument
            raise ValueError(f"{self.what} {spec!r}: {error}") from None
        return part(**shared | options)
