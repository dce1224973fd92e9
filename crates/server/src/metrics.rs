//! What Prometheus reads. `docs/server.md` lists the names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use zinc_engine::{Engine, PAGE_TOKENS};

/// The server's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Answers by route and status.
    pub requests: Family<RequestLabels, Counter>,
    /// Jobs that clients left.
    pub cancelled: Counter,
    /// Tokens of prompts.
    pub prompt_tokens: Counter,
    /// Of these, those that were there already.
    pub cached_tokens: Counter,
    /// Tokens chosen.
    pub generated_tokens: Counter,
    /// Jobs in the engine.
    pub running: Gauge,
    /// Jobs before it.
    pub waiting: Gauge,
    /// Rows of steps.
    pub batch_rows: Histogram,
    /// Seconds of steps.
    pub step_seconds: Histogram,
    /// Seconds from a request to its first token.
    pub ttft: Histogram,
    /// Seconds between tokens.
    pub inter_token: Histogram,
    /// KV pages in use by requests.
    pub pages_used: Gauge,
    /// KV pages kept for prefixes.
    pub pages_cached: Gauge,
    /// KV pages of prefixes that were given up.
    pub pages_evicted: Counter,
    /// Part of the KV pages that requests use, 0 to 1.
    pub page_usage: Gauge<f64, AtomicU64>,
}

/// What tells answers apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The route's pattern.
    pub route: String,
    /// The HTTP status.
    pub status: u16,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut r = Registry::with_prefix("zinc");
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let rows = || Histogram::new(exponential_buckets(1.0, 2.0, 11));
        Metrics {
            requests: add(&mut r, "requests", "Answers by route and status", Family::default()),
            cancelled: add(&mut r, "cancelled", "Choices whose client went away", Counter::default()),
            prompt_tokens: add(&mut r, "prompt_tokens", "Tokens of prompts", Counter::default()),
            cached_tokens: add(
                &mut r,
                "prefix_hit_tokens",
                "Tokens of prompts that were computed for an earlier request",
                Counter::default(),
            ),
            generated_tokens: add(&mut r, "generated_tokens", "Tokens generated", Counter::default()),
            running: add(&mut r, "requests_running", "Choices in the engine", Gauge::default()),
            waiting: add(&mut r, "requests_waiting", "Choices that wait for a sequence", Gauge::default()),
            batch_rows: add(&mut r, "batch_rows", "Rows of a step", rows()),
            step_seconds: add(&mut r, "step_seconds", "Seconds of a step", seconds()),
            ttft: add(
                &mut r,
                "time_to_first_token_seconds",
                "From the request to its first token",
                seconds(),
            ),
            inter_token: add(&mut r, "inter_token_seconds", "Between two tokens of a choice", seconds()),
            pages_used: add(&mut r, "kv_pages_used", "KV pages that running choices use", Gauge::default()),
            pages_cached: add(&mut r, "kv_pages_cached", "KV pages kept for prefixes", Gauge::default()),
            pages_evicted: add(
                &mut r,
                "kv_pages_evicted",
                "KV pages of known prefixes that were given up for running choices",
                Counter::default(),
            ),
            page_usage: add(
                &mut r,
                "kv_page_usage",
                "Part of the KV pages that running choices use, 0 to 1",
                Gauge::default(),
            ),
            registry: Mutex::new(r),
        }
    }
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Adds what is known once a model is loaded.
    pub fn describe(&self, engine: &Engine) {
        let summary = engine.summary();
        let path = engine.prefill_path();
        let labels = vec![
            ("backend", summary.backend.to_owned()),
            ("device", summary.device.clone()),
            ("policy", summary.policy.to_owned()),
            ("kv_type", summary.kv_type.to_owned()),
            ("prefill", path.path.to_owned()),
            ("prefill_rows", path.chunk.to_string()),
            ("prefill_fallbacks", path.fallbacks.len().to_string()),
        ];
        let cache =
            vec![("block_size", PAGE_TOKENS.to_string()), ("num_gpu_blocks", pages(engine).to_string())];
        self.fact("engine_info", "What runs the model", labels);
        self.fact("cache_config_info", "Size of the KV cache", cache);
    }

    /// Something that does not change, in labels. A gauge of 1: OpenMetrics has a type for it, which older readers refuse.
    fn fact(&self, name: &str, help: &str, labels: Vec<(&'static str, String)>) {
        let family = Family::<Vec<(&'static str, String)>, Gauge>::default();
        family.get_or_create(&labels).set(1);
        self.registry.lock().unwrap_or_else(|e| e.into_inner()).register(name, help, family);
    }

    /// The text for a scrape.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(|e| e.into_inner());
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// Pages of the KV cache, while no sequence has any; on the CPU executor, which has none, those that its sequences would fill.
pub fn pages(engine: &Engine) -> u64 {
    let s = engine.summary();
    match engine.free_pages() {
        0 => u64::from(s.context.div_ceil(PAGE_TOKENS)) * u64::from(s.sequences),
        free => free as u64,
    }
}
