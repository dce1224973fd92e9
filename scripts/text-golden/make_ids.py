"""Golden ids: hashes of what Hugging Face `tokenizers` gives for every string of strings.py.

    python3 -m venv v && v/bin/pip install -r scripts/text-golden/requirements.txt
    v/bin/python scripts/text-golden/make_ids.py MODELS/tokenizers crates/text/tests/golden

Writes strings.json, and per tokenizer a file with two hashes a line: special tokens parsed, and as text.
"""

import json
import pathlib
import sys

from strings import strings
from tokenizers import Tokenizer


def fnv1a(ids):
    """FNV-1a, 32 bits, over the ids as little-endian u32."""
    h = 0x811C9DC5
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{h:08x}"


def main(models, out):
    texts = strings()
    (out / "strings.json").write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    for name in ["qwen3", "llama3_1", "gptoss", "gemma3"]:
        tokenizer = Tokenizer.from_file(str(models / name / "tokenizer.json"))
        columns = []
        for as_text in [False, True]:
            tokenizer.encode_special_tokens = as_text
            columns.append([fnv1a(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts])
        lines = [" ".join(pair) for pair in zip(*columns)]
        (out / f"ids-{name}.txt").write_text("\n".join(lines) + "\n")
    print(len(texts), "strings")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
