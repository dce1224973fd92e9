//! The server's handlers over the tokenizer and the template of a tiny model.

use zinc_engine::{BackendWish, Engine, LoadOptions};
use zinc_server::fuzz::Desk;

thread_local! {
    pub static DESK: Desk = {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/qwen3/model-q4_k_m.gguf");
        let options = LoadOptions { backend: BackendWish::Cpu, ..LoadOptions::new(model) };
        Desk::new(&Engine::load(&options, &mut |_| ()).expect("a fixture"))
    };
}
