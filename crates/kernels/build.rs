//! Compiles every `src/**/*.comp` in all its variants and writes a table of the modules: see `glsl/format.md`.

#[path = "build/compile.rs"]
mod compile;
#[path = "build/spirv.rs"]
mod spirv;
#[path = "build/variants.rs"]
mod variants;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    // The folders, so that new files are noticed; the format snippets come with the crate `zinc-quant`.
    for watched in ["build.rs", "build", "glsl", "src"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    let mut sources = Vec::new();
    find(&root.join("src"), &mut sources);
    sources.sort();
    let jobs: Vec<variants::Job> = sources.iter().flat_map(|path| variants::jobs(path)).collect();
    let results = compile_all(&jobs, &root, &out);
    let errors: Vec<&String> = results.iter().filter_map(|r| r.as_ref().err()).collect();
    if !errors.is_empty() {
        for e in &errors {
            eprintln!("{e}");
        }
        panic!("{} of {} shader variants do not compile", errors.len(), jobs.len());
    }
    write_table(&out, &jobs, &results.into_iter().flatten().collect::<Vec<_>>());
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|e| e == "comp") {
            found.push(path);
        }
    }
}

/// The words of each job's module, or what is wrong with it; as many threads as cargo grants.
fn compile_all(jobs: &[variants::Job], root: &Path, out: &Path) -> Vec<Result<Vec<u32>, String>> {
    let threads = std::env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1usize);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Err(String::new()); jobs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < jobs.len()) {
                    let result = compile::compile(&jobs[i], root, out);
                    results.lock().expect("no compiler thread panicked")[i] = result;
                }
            });
        }
    });
    results.into_inner().expect("no compiler thread panicked")
}

/// All modules in one file of words, and Rust source that says which range is which.
fn write_table(out: &Path, jobs: &[variants::Job], modules: &[Vec<u32>]) {
    let mut words: Vec<u8> = Vec::new();
    let mut table = String::from("[\n");
    for (job, module) in jobs.iter().zip(modules) {
        let start = words.len() / 4;
        words.extend(module.iter().flat_map(|w| w.to_le_bytes()));
        let push_bytes = spirv::push_bytes(module).unwrap_or_else(|e| panic!("{job}: {e}"));
        let (stem, variant, end) = (&job.stem, &job.variant, start + module.len());
        writeln!(
            table,
            "Shader {{ stem: {stem:?}, variant: &{variant:?}, words: {start}..{end}, push_bytes: {push_bytes} }},"
        )
        .expect("writing to a string");
    }
    table.push(']');
    std::fs::write(out.join("shaders.spv"), words).expect("a writable OUT_DIR");
    std::fs::write(out.join("shaders.rs"), table).expect("a writable OUT_DIR");
}
