#!/usr/bin/env python3
"""validate-prompts.py ZINC MODEL OUT.json [--device NAME] [--lengths 5,17,…] [--no-reference] [-- --kv f32 …]

Runs `zinc run --prefill validate` on prompts of these numbers of tokens and writes the reports to OUT.json, with a table on standard
output. Each prompt is another part of an endless text, and a few tokens are generated after it. Exit code 1 where one fails.
"""
import argparse, json, random, subprocess, sys

LENGTHS = [5, 7, 12, 16, 17, 31, 32, 33, 48, 64, 65, 100, 105, 128, 200, 300, 511, 658, 1024, 1500]
WORDS = """the of a river stone light engine question morning quietly built carries seven between answer window measure green
copper which always under never finds road letter music winter paper machine garden because return number however simple
ocean teacher bread history before yellow city small forward memory cold language iron field until children evening
naïve café Straße Москва 東京 fn main() { return x + 1; } 3.14159 2024-05-17 https://example.org "quoted" (aside) — etc.""".split()


def words(count):
    pick = random.Random(7)
    text = []
    while len(text) < count:
        text += [pick.choice(WORDS) for _ in range(pick.randint(4, 14))] + [pick.choice([".", ".", "?", ",", "\n\n", ":"])]
    return " ".join(text)


def run(args, stdin=""):
    return subprocess.run(args, input=stdin, capture_output=True, text=True)


def tokenize(zinc, model, *args, stdin=""):
    done = run([zinc, "tokenize", "-m", model, "--json", *args], stdin)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def validate(zinc, model, prompt, options):
    done = run([zinc, "run", "-m", model, "--raw", "--json", "-n", "4", "--prefill", "validate", *options, "-"], prompt)
    answer = json.loads(done.stdout) if done.stdout.strip() else {}
    report = answer.get("validation") or answer.get("stats", {}).get("validation")
    return dict(exit_code=done.returncode, report=report, tokens=len(answer.get("prompt_tokens", [])),
                engine=answer.get("engine"), error=done.stderr.strip() if done.returncode else None)


def line(result):
    report = result["report"]
    if not report:
        return f"{result['tokens']:>6}  exit {result['exit_code']}: {result['error']}"
    parts = [f"{report['n_tokens']:>6}  {'ok    ' if report['ok'] else 'FAILED'} {report['path']['path']} {report['path']['chunk']:>4}"]
    for c in report["comparisons"]:
        diff = [c[k]["max_abs_diff"] for k in ("logits", "keys", "values")]
        parts.append(f"{c['against']}: max abs diff {max(d if d is not None else float('inf') for d in diff):.3e}, KL {c['choice']['kl_max']:.1e}")
    if report["first"]:
        first = report["first"]
        parts.append(f"first: layer {first['layer']} {first['op']} row {first['row']} element {first['element']}")
    return "; ".join(parts) + f"; {report['seconds']:.2f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zinc"), parser.add_argument("model"), parser.add_argument("out"), parser.add_argument("--device")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens of each prompt")
    parser.add_argument("--no-reference", action="store_true", help="do not compare with the CPU executor")
    # What comes after `--` is for `zinc run`.
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = parser.parse_args(sys.argv[1:end])
    lengths = [int(n) for n in args.lengths.split(",")]
    options = ["--ctx", str(max(lengths) + 64), *sys.argv[end + 1:]]
    options += ["--device", args.device] if args.device else []
    options += [] if args.no_reference else ["--validate-reference"]
    ids = tokenize(args.zinc, args.model, stdin=words(2 * sum(lengths)))["ids"]
    results, start = [], 0
    for length in lengths:
        part = ",".join(map(str, ids[start:start + length]))
        start += length
        result = validate(args.zinc, args.model, tokenize(args.zinc, args.model, "--decode", part)["text"], options)
        results.append(dict(wanted_tokens=length, **result))
        print(line(result), flush=True)
    good = sum(r["exit_code"] == 0 and bool(r["report"]) and r["report"]["ok"] for r in results)
    print(f"{good} of {len(results)} prompts are as they must be")
    with open(args.out, "w") as out:
        json.dump(dict(model=args.model, prompts=len(results), good=good, results=results), out, indent=1)
        out.write("\n")
    sys.exit(good != len(results))


main()
