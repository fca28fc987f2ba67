"""The meaning of a text, as a vector: texts about the same have vectors that point the same way, whatever their words.

The vectors are static: each token has one, and a text has their mean. So no model runs, and it is quick, also without
a graphics card; it knows what words have to do with each other, and nothing of their order. Tokens and their vectors
are those of the package ``wordllama``. Its own loader asks the network, so its two files are read here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from crdtsync.context.extras import need
from crdtsync.errors import InvalidEncoding

EXTRA = "meaning"
TOKENS_MAX = 512
"""Tokens of a text that are looked at."""
_VECTORS, _TOKENS = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


class Meaning:
    """The vectors of texts. Its files are read when it is first asked."""

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """For each text its vector as bytes, a signed one for each dimension; all zero for a text without words."""
        numpy, table, tokenizer = self._read
        found = []
        for encoded in tokenizer.encode_batch(list(texts), add_special_tokens=False):
            vector = numpy.zeros(table.shape[1], numpy.float32)
            if encoded.ids:
                vector = table[encoded.ids].astype(numpy.float32).mean(0)
                vector = vector / max(float(abs(vector).max()), 1e-9)
            found.append((vector * 127).round().astype(numpy.int8).tobytes())
        return found

    def likeness(self, vectors: Sequence[bytes], text: str) -> Any:  # a vector of numpy
        """How much each of ``vectors`` says the same as ``text``: 1.0 quite, 0.0 or less not at all."""
        numpy, table, _ = self._read
        width = table.shape[1]
        held = numpy.frombuffer(b"".join(vectors), numpy.int8).reshape(-1, width).astype(numpy.float32)
        asked = numpy.frombuffer(self.vectors([text])[0], numpy.int8).astype(numpy.float32)
        lengths = numpy.linalg.norm(held, axis=1) * numpy.linalg.norm(asked)
        return held @ asked / numpy.maximum(lengths, 1e-9)

    @cached_property
    def _read(self) -> tuple[Any, Any, Any]:
        """numpy, the vectors of all tokens, and what cuts a text into tokens."""
        numpy = need("numpy", EXTRA)
        tokenizer = need("tokenizers", EXTRA).Tokenizer.from_file(str(_file(_TOKENS)))
        tokenizer.no_padding()
        tokenizer.enable_truncation(TOKENS_MAX)
        path = _file(_VECTORS)
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(size))
        (about,) = (one for name, one in head.items() if name != "__metadata__")
        if about["dtype"] != "F16":
            raise InvalidEncoding(
                f"{path} holds {about['dtype']} where F16 was expected: another version of wordllama?"
            )
        start = 8 + size + about["data_offsets"][0]
        return numpy, numpy.memmap(path, numpy.float16, "r", start, tuple(about["shape"])), tokenizer


def _file(name: str) -> Path:
    """A file of the package, which is not imported: that would ask for more packages than are needed."""
    try:
        found = next((one for one in files("wordllama") or () if str(one) == f"wordllama/{name}"), None)
    except PackageNotFoundError:
        found = None
    if found is None:
        need("wordllama", EXTRA)
        raise InvalidEncoding(
            f"the installed wordllama has no {name}: pip install 'crdtsync[{EXTRA}]' brings one that has"
        )
    return Path(str(found.locate()))
