//! Prefill and decode rates of a model file: `cargo run --release -p zinc-cpu --example rate -- MODEL.gguf [PROMPT] [TOKENS]`.

use std::sync::Arc;
use std::time::Instant;
use zinc_plan::Row;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: rate MODEL.gguf [PROMPT] [TOKENS]")?;
    let prompt: u32 = args.next().map_or(Ok(128), |a| a.parse())?;
    let tokens: u32 = args.next().map_or(Ok(64), |a| a.parse())?;
    let gguf = Arc::new(zinc_gguf::Gguf::open(path.as_ref())?);
    let model = zinc_model::Model::from_gguf(&gguf)?;
    let cpu = zinc_cpu::Cpu::new(gguf, model.plan)?;
    let row =
        |position, wants_logits| Row { sequence: 0, position, token: position % 1000 + 1, wants_logits };
    for round in 0..5 {
        let mut sequences = [cpu.new_sequence(prompt + tokens)];
        let rows: Vec<Row> = (0..prompt).map(|p| row(p, p + 1 == prompt)).collect();
        let start = Instant::now();
        cpu.forward(&rows, &mut sequences)?;
        let prefill = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for p in prompt..prompt + tokens {
            cpu.forward(&[row(p, true)], &mut sequences)?;
        }
        let decode = start.elapsed().as_secs_f64();
        println!(
            "round {round}: prefill {:.1} tok/s, decode {:.1} tok/s",
            f64::from(prompt) / prefill,
            f64::from(tokens) / decode
        );
    }
    Ok(())
}
