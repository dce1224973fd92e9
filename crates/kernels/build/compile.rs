//! One module through glslang.

use crate::variants::Job;
use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, ShaderInput, ShaderMessage, ShaderSource, ShaderStage, SourceLanguage,
    SpirvVersion, Target, VulkanVersion,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Finds `format.glsl` in the format list, everything else in `glsl/` or beside the shader.
struct Includes<'a> {
    folders: &'a [PathBuf; 2],
    format: Option<&'a str>,
}

impl IncludeHandler for Includes<'_> {
    fn include(&mut self, _: IncludeType, name: &str, _: &str, _: usize) -> Option<IncludeResult> {
        let data = match (name, self.format) {
            ("format.glsl", Some(text)) => text.to_owned(),
            _ => self.folders.iter().find_map(|f| std::fs::read_to_string(f.join(name)).ok())?,
        };
        Some(IncludeResult { name: name.to_owned(), data })
    }
}

/// Compiles a variant to SPIR-V 1.6 for Vulkan 1.3, or takes it from `cache` where nothing it depends on has changed: cargo
/// runs the build script for every change in `src`.
///
/// # Errors
/// File, variant, and the compiler's own lines.
pub fn compile(job: &Job, root: &Path, cache: &Path) -> Result<Vec<u32>, String> {
    let fail = |what: String| format!("{job}:\n{}", tidy(&what));
    let text = std::fs::read_to_string(&job.path).map_err(|e| fail(e.to_string()))?;
    let beside = job.path.parent().unwrap_or(root).to_owned();
    let folders = [root.join("glsl"), beside];
    let kept = cache.join(format!("{:016x}.spv", key(job, &text, &folders)));
    if let Ok(bytes) = std::fs::read(&kept) {
        return Ok(bytes.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect());
    }
    let words = build(job, &text, &folders).map_err(fail)?;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&kept, bytes).map_err(|e| format!("`{}`: {e}", kept.display()))?;
    Ok(words)
}

/// A hash of everything a module depends on, this script's own build included.
fn key(job: &Job, text: &str, folders: &[PathBuf; 2]) -> u64 {
    let mut hash = DefaultHasher::new();
    (text, job.defines(), job.format.map(|f| f.glsl)).hash(&mut hash);
    (include_str!("compile.rs"), include_str!("variants.rs")).hash(&mut hash);
    for folder in folders {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "glsl")) {
            (file, std::fs::read(file).ok()).hash(&mut hash);
        }
    }
    hash.finish()
}

fn build(job: &Job, text: &str, folders: &[PathBuf; 2]) -> Result<Vec<u32>, String> {
    let compiler = Compiler::acquire().ok_or("glslang does not start")?;
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan { version: VulkanVersion::Vulkan1_3, spirv_version: SpirvVersion::SPIRV1_6 },
        version_profile: None,
        messages: ShaderMessage::VULKAN_RULES | ShaderMessage::SPV_RULES,
    };
    let mut includes = Includes { folders, format: job.format.map(|f| f.glsl) };
    // The defines go into the text itself, after the version line: messages keep their line numbers by `#line`.
    let (version, rest) = text.split_once('\n').ok_or("an empty file")?;
    let defines: String =
        job.defines().iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
    let text =
        format!("{version}\n#extension GL_GOOGLE_include_directive : require\n{defines}#line 2\n{rest}");
    let source = ShaderSource::from(text);
    let no_defines: Option<&[(&str, Option<&str>)]> = None;
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, no_defines, Some(&mut includes))
        .map_err(|e| e.to_string())?;
    let shader = compiler.create_shader(input).map_err(|e| e.to_string())?;
    shader.compile().map_err(|e| e.to_string())
}

/// The lines that say something, once each.
fn tidy(log: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in log.lines().map(str::trim) {
        if !line.is_empty() && !line.ends_with("Log:") && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.iter().map(|l| format!("    {l}\n")).collect()
}
