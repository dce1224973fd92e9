"""Golden ids: hashes of what Hugging Face `tokenizers` gives for every string of strings.py.

    python3 -m venv v && v/bin/pip install -r scripts/text-golden/requirements.txt
    v/bin/python scripts/text-golden/make_ids.py MODELS/tokenizers crates/text/tests/golden

Writes strings.json, and per tokenizer a file with two hashes a line: special tokens parsed, and as text. The files of
pretokenizers (qwen35, smollm, gpt-2) have the first alone.
"""

import json
import pathlib
import sys

from strings import strings
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers


def fnv1a(ids):
    """FNV-1a, 32 bits, over the ids as little-endian u32."""
    h = 0x811C9DC5
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{h:08x}"


def variants():
    """Pretokenizers of models whose tokenizer.json is not fetched; compared on Qwen3's vocabulary."""
    contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    spaces = r"\s*[\r\n]+|\s+(?!\S)|\s+"
    qwen35 = rf"{contractions}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{spaces}"
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    yield "qwen35", normalizers.NFC(), [pre_tokenizers.Split(Regex(qwen35), "isolated"), bytes_only]
    yield "smollm", None, [pre_tokenizers.Digits(individual_digits=True), gpt2]
    yield "gpt-2", None, [gpt2]


def write(tokenizer, texts, modes, path):
    columns = []
    for as_text in modes:
        tokenizer.encode_special_tokens = as_text
        columns.append([fnv1a(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts])
    path.write_text("".join(" ".join(line) + "\n" for line in zip(*columns)))


def main(models, out):
    texts = strings()
    (out / "strings.json").write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    for name in ["qwen3", "llama3_1", "gptoss", "gemma3"]:
        tokenizer = Tokenizer.from_file(str(models / name / "tokenizer.json"))
        write(tokenizer, texts, [False, True], out / f"ids-{name}.txt")
    for name, normalizer, stages in variants():
        tokenizer = Tokenizer.from_file(str(models / "qwen3" / "tokenizer.json"))
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
        write(tokenizer, texts, [False], out / f"ids-{name}.txt")
    print(len(texts), "strings")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
