#!/usr/bin/env bash
# bench-server: what `zinc serve` gives many clients: tokens a second of 1, 4, 16 and 64 greedy streams together, and the time to the first token
# of a long prompt, cold and after a prefix that is known.
# Usage: scripts/bench-server.sh ZINC MODEL OUT.json [OPTIONS OF zinc serve…]
# Environment: STREAMS="1 4 16 64", TOKENS=128 of each stream, PREFIX=4096 tokens, REPEATS=3. The server's log is OUT.json.log.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
exec python3 - "$@" <<'PYTHON'
import json, os, random, socket, statistics, subprocess, sys, threading, time, urllib.request

zinc, model, out, *options = sys.argv[1:]
streams = [int(n) for n in os.environ.get("STREAMS", "1 4 16 64").split()]
tokens, prefix, repeats = (int(os.environ.get(k, d)) for k, d in (("TOKENS", 128), ("PREFIX", 4096), ("REPEATS", 3)))
DEADLINE = 300  # seconds for a load or one request
dice = random.Random(1)


def prompt(length):
    """Token ids that no other prompt begins with, below those that models keep for control."""
    return [dice.randrange(1000, 30000) for _ in range(length)]


class Stream(threading.Thread):
    """One streamed completion. Reads as little as it can while tokens come: what was read is understood at the end."""

    def __init__(self, ids, count):
        super().__init__(daemon=True)
        body = {"prompt": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        self.body, self.error, self.pieces = json.dumps(body).encode(), None, []

    def run(self):
        try:
            head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(self.body)}\r\n\r\n"
            with socket.create_connection(address, timeout=DEADLINE) as connection:
                self.began = time.perf_counter()
                connection.sendall(head.encode() + self.body)
                while data := connection.recv(1 << 16):
                    self.pieces.append((time.perf_counter(), data))
            self.understand()
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"

    def understand(self):
        text = b"".join(data for _, data in self.pieces).decode()
        # A chunk of the transfer holds whole events, so lines are whole but for sizes between them.
        data = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        failed = next((d["error"]["message"] for d in data if "error" in d), None)
        if failed or not data or not data[-1].get("usage"):
            raise RuntimeError(failed or text[:300])
        self.count, self.cached = data[-1]["usage"]["completion_tokens"], data[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.text = "".join(c.get("text", "") for d in data for c in d["choices"])
        # The head of the answer comes before the first token.
        events = [(at, data.count(b"data: {")) for at, data in self.pieces if b"data: {" in data]
        self.first, self.last = events[0][0], events[-1][0]


def together(prompts, count):
    running = [Stream(ids, count) for ids in prompts]
    for stream in running:
        stream.start()
    for stream in running:
        stream.join(DEADLINE)
    errors = [s.error or "no end" for s in running if s.error or s.is_alive()]
    if errors:
        raise RuntimeError(f"{len(errors)} of {len(running)} streams failed: {errors[0]}")
    return running


def decode(report):
    prompts, alone = [prompt(16 + i % 5) for i in range(max(streams))], None
    for n in streams:
        together(prompts[:n], 8)  # steps of this width are recorded
        done = together(prompts[:n], tokens)
        seconds = max(s.last for s in done) - min(s.first for s in done)
        rate = sum(s.count - 1 for s in done) / seconds
        alone = alone or (rate, done[0].text)
        report.append({"streams": n, "tokens": sum(s.count for s in done), "seconds": round(seconds, 4), "tokens_per_second": round(rate, 2),
                       "ratio": round(rate / alone[0], 3), "first_stream_says_the_same": done[0].text == alone[1]})
        print(json.dumps(report[-1]), flush=True)


def first_token(report):
    def once(ids):
        [stream] = together([ids], 2)
        return stream.first - stream.began, stream.cached

    once(prompt(prefix + 16))  # steps of this width are recorded
    once(prompt(16))
    shared = [prompt(prefix) for _ in range(repeats)]
    cold = [once(ids + prompt(16)) for ids in shared]
    once(shared[0] + prompt(16))
    warm = [once(ids + prompt(16)) for ids in shared for _ in range(2)]
    median = lambda times: statistics.median(t for t, _ in times)
    report.update(prefix_tokens=prefix, cold_seconds=[round(t, 5) for t, _ in cold], known_prefix_seconds=[round(t, 5) for t, _ in warm],
                  cached_tokens=[c for _, c in warm], cold_median_seconds=round(median(cold), 5),
                  known_prefix_median_seconds=round(median(warm), 5), ratio=round(median(warm) / median(cold), 5))
    print(json.dumps(report), flush=True)


def start():
    global address
    command = [zinc, "serve", "-m", model, "--port", "0", "--parallel", str(max(streams)), "-c", str(prefix + 64 + tokens),
               "--kept-tokens", str((2 * repeats + 2) * prefix), "--log-level", "error", *options]
    environment = {k: v for k, v in os.environ.items() if k != "ZINC_API_KEY"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(f"{out}.log", "w"), env=environment, text=True)
    line = server.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"the server ended: {open(f'{out}.log').read()[-2000:]}")
    host, port = line.split("//")[1].strip("/").rsplit(":", 1)
    address = (host.strip("[]"), int(port))
    return server, command


def get(path):
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=30) as answer:
        return answer.read().decode()


def wait(server):
    began = time.monotonic()
    while True:
        try:
            get("/health")
            return time.monotonic() - began
        except OSError:
            if server.poll() is not None or time.monotonic() - began > DEADLINE:
                raise RuntimeError(f"the server does not load: {open(f'{out}.log').read()[-2000:]}")
            time.sleep(0.1)


report, server = {"decode": [], "first_token": {}, "errors": []}, None
began = time.monotonic()
try:
    server, report["command"] = start()
    report["load_seconds"] = round(wait(server), 2)
    report["model"] = json.loads(get("/v1/models"))["data"][0]
    for part, into in ((decode, report["decode"]), (first_token, report["first_token"])):
        try:
            part(into)
        except Exception as e:
            report["errors"].append(f"{part.__name__}: {e}")
    metrics = get("/metrics").splitlines()
    report["metrics"] = [line for line in metrics if line.startswith(("zinc_batch_rows_", "zinc_kv_pages", "zinc_engine_info", "zinc_prefix"))]
except Exception as e:
    report["errors"].append(str(e))
finally:
    if server and server.poll() is None:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
    report["seconds"] = round(time.monotonic() - began, 1)
    with open(out, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
for error in report["errors"]:
    print(f"bench-server: {error}", file=sys.stderr)
sys.exit(bool(report["errors"]))
PYTHON
