#!/usr/bin/env python3
"""device-check.py ZINC OUT.json [--device NAME] [--model FILE …]: what a GPU answers and how fast, in one file.

Every fixture's stored logits through `zinc logits` under both policies and with both KV types (relative RMS against the reference), the kernel suites, the
bandwidth of products, and prefill and decode of each model. Needs numpy and safetensors. Exit code 1 where something is wrong.
"""
import argparse, concurrent.futures, json, os, pathlib, subprocess, sys, tempfile
import numpy as np
from safetensors.numpy import load_file


def run(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        print("$", *args, done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    return done


def relative_rms(got, want):
    return float(np.sqrt(np.sum((got - want) ** 2) / np.sum((want - want.mean()) ** 2)))


def fixtures(zinc, device, root, lengths):
    """Every file under both policies, on all cores: most of a run is the start of a process."""
    def check(family, model, reference, length, policy, kv, limit):
        tokens = ",".join(map(str, reference[f"tokens_{length}"]))
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as out:
            done = run(zinc, "logits", "-m", str(model), "--tokens", tokens, "-o", out.name,
                       "--backend", "vulkan", "--policy", policy, "--kv", kv, *device)
            error = None
            if done.returncode == 0:
                error = relative_rms(load_file(out.name)["logits"].ravel(), reference[f"logits_{length}"])
        return dict(fixture=family, quant=model.stem.removeprefix("model-"), policy=policy, kv=kv, length=length, error=error, limit=limit,
                    ok=error is not None and error <= limit)

    checks = []
    # A quants' or tokenizers' folder has no model.
    for folder in sorted(f.parent for f in root.glob("*/fixture.json") if any(f.parent.glob("model-*.gguf"))):
        info = json.loads((folder / "fixture.json").read_text())
        for model in sorted(folder.glob("model-*.gguf")):
            reference = load_file(folder / f"reference-{model.stem.removeprefix('model-')}.safetensors")
            noise = info["files"][model.name]["noise"]["f16"]["last_rel_rms"]
            # The fast policy's limit is LOGITS_FAST of crates/testkit/src/tolerance.rs.
            for policy, kv, limit in (("exact", "f32", 1e-4), ("exact", "f16", min(4 * noise, 1e-2)), ("fast", "f32", 1.5e-2)):
                checks += [(folder.name, model, reference, length, policy, kv, limit) for length in lengths]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda c: check(*c), checks))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("zinc"), args.add_argument("out"), args.add_argument("--device")
    args.add_argument("--model", action="append", default=[]), args.add_argument("--prefill", default="17,105,512"), args.add_argument("--decode", default="128")
    args.add_argument("--lengths", default="1,7,17,41,105,300", help="prompts of the fixtures")
    args.add_argument("--skip", default="", help="ops,fixtures,kernels")
    args.add_argument("--shape", action="append", default=[], help="rows x inner of products, such as 4096x12288")
    args.add_argument("--format", default="Q4_K,Q6_K,Q8_0"), args.add_argument("--sweep", action="store_true")
    args.add_argument("--bench-prefill", action="append", default=[], metavar="FILE", help="a model to read prompts of in every way; writes .json, .md and .svg beside OUT")
    args.add_argument("--bench-prefill-options", default="", help="more options of `zinc bench prefill`, in one string")
    args = args.parse_args()
    device = ["--device", args.device] if args.device else []
    report = {"zinc": run(args.zinc, "--version").stdout.strip()}
    report["devices"] = json.loads(run(args.zinc, "devices", "--json").stdout or "null")
    wrong = []
    if "ops" not in args.skip:
        ops = run(args.zinc, "check", "--ops", *device)
        report["ops"] = ops.stdout.splitlines()[-30:]
        wrong += ["ops"] if ops.returncode else []
    if "fixtures" not in args.skip:
        report["fixtures"] = fixtures(args.zinc, device, pathlib.Path("tests/fixtures"), args.lengths.split(","))
        wrong += [f"{f['fixture']}-{f['quant']} {f['policy']} {f['kv']} {f['length']}: {f['error']}" for f in report["fixtures"] if not f["ok"]]
    report["kernels"] = []
    for shape in args.shape:
        rows, inner = shape.split("x")
        done = run(args.zinc, "bench", "kernels", "--json", "--repeats", "3", "--rows", rows, "--inner", inner, "--format", args.format,
                   *(["--sweep"] if args.sweep else []), *device)
        report["kernels"] += json.loads(done.stdout)["results"] if done.returncode == 0 else []
        wrong += [f"kernels {shape}"] if done.returncode else []
    report["models"] = []
    for model in args.model:
        done = run(args.zinc, "bench", "-m", model, "-p", args.prefill, "-n", args.decode, "--json", "--backend", "vulkan", *device)
        report["models"].append(json.loads(done.stdout) if done.stdout else None)
        wrong += [f"bench {model}"] if done.returncode else []
    report["bench_prefill"] = []
    for model in args.bench_prefill:
        # Table to standard output; JSON, Markdown and plot beside the report.
        stem = pathlib.Path(args.out).with_suffix("").with_name(pathlib.Path(args.out).stem + "-prefill-" + pathlib.Path(model).stem)
        done = run(args.zinc, "bench", "prefill", "-m", model, "--backend", "vulkan", f"--json={stem}.json", f"--markdown={stem}.md", "--svg", f"{stem}.svg",
                   *args.bench_prefill_options.split(), *device)
        print(done.stdout)
        report["bench_prefill"].append(json.loads(pathlib.Path(f"{stem}.json").read_text()) if pathlib.Path(f"{stem}.json").exists() else None)
        wrong += [f"bench prefill {model}"] if done.returncode else []
    report["wrong"] = wrong
    pathlib.Path(args.out).write_text(json.dumps(report, indent=1))
    for f in report.get("fixtures", []):
        print(f["fixture"], f["quant"], f["policy"], f["kv"], f["length"], "%.2e" % (f["error"] or -1), "ok" if f["ok"] else "WRONG")
    print(*report.get("ops", []), sep="\n")
    # Of a sweep the policy's own tile and the best five.
    best = lambda k: -max(k["alone_gb_per_s"], k["streamed_gb_per_s"])
    groups = {}
    for k in report["kernels"]:
        groups.setdefault((k["format"], k["rows"], k["inner"]), []).append(k)
    for k in [k for g in groups.values() for k in g[:1] + sorted(g[1:], key=best)[:6]]:
        print(k["format"], k["rows"], k["inner"], k.get("tile"), "alone %.1f us %.0f GB/s streamed %.0f GB/s" % (k["alone_us"], k["alone_gb_per_s"], k["streamed_gb_per_s"]))
    print(json.dumps(report["models"])[:6000])
    print("wrong:", wrong)
    return 1 if wrong else 0


sys.exit(main())
