//! A shader's header line and what follows from it: `// variants: FORMAT=*; KV=f16|f32`.

use std::fmt;
use std::path::{Path, PathBuf};
use zinc_quant::{FormatRef, by_name, formats};

/// One module to compile.
pub struct Job {
    /// The source.
    pub path: PathBuf,
    /// File name without extension: how the Rust side names the shader.
    pub stem: String,
    /// A value for each dimension, in the order of the header.
    pub variant: Vec<(String, String)>,
    /// The format that `format.glsl` stands for.
    pub format: Option<FormatRef>,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant: Vec<String> = self.variant.iter().map(|(d, v)| format!("{d}={v}")).collect();
        write!(f, "{} [{}]", self.path.display(), variant.join(" "))
    }
}

/// The variants of a source file: the cross product of its dimensions.
pub fn jobs(path: &Path) -> Vec<Job> {
    let source = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("`{}`: {e}", path.display()));
    let stem = path.file_stem().and_then(|s| s.to_str()).expect("a UTF-8 file name").to_owned();
    let header = source.lines().find_map(|l| l.trim().strip_prefix("// variants:")).unwrap_or("");
    let mut product = vec![vec![]];
    for dimension in header.split(';').map(str::trim).filter(|d| !d.is_empty()) {
        let (name, values) = dimension
            .split_once('=')
            .unwrap_or_else(|| panic!("`{}`: variant `{dimension}` is not NAME=a|b", path.display()));
        let values: Vec<String> = match (name, values.trim()) {
            ("FORMAT", "*") => formats().iter().map(|f| f.name.to_owned()).collect(),
            // Those that give integers.
            ("FORMAT", "packed") => {
                let packed = formats().iter().filter(|f| f.glsl.contains("run_packed("));
                packed.map(|f| f.name.to_owned()).collect()
            }
            // Those whose chunks four lanes share.
            ("FORMAT", "shared") => {
                let shared = formats().iter().filter(|f| f.glsl.contains("share_packed("));
                shared.map(|f| f.name.to_owned()).collect()
            }
            (_, values) => values.split('|').map(|v| v.trim().to_owned()).collect(),
        };
        let extend = |v: &Vec<(String, String)>| -> Vec<Vec<(String, String)>> {
            let with =
                |value: &String| v.iter().cloned().chain([(name.trim().to_owned(), value.clone())]).collect();
            values.iter().map(with).collect()
        };
        product = product.iter().flat_map(extend).collect();
    }
    let job = |variant: Vec<(String, String)>| {
        let format = variant.iter().find(|(d, _)| d == "FORMAT").map(|(_, name)| {
            by_name(name).unwrap_or_else(|| panic!("`{}`: unknown format `{name}`", path.display()))
        });
        Job { path: path.to_owned(), stem: stem.clone(), variant, format }
    };
    product.into_iter().map(job).collect()
}

impl Job {
    /// The macros of this variant: `#define KV_F16 1`, and for a format its sizes.
    pub fn defines(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = (self.variant.iter())
            .map(|(d, v)| (format!("{d}_{}", v.to_uppercase()), "1".to_owned()))
            .collect();
        if let Some(format) = self.format {
            all.push(("BLOCK_ELEMS".into(), format.block_elems.to_string()));
            all.push(("BLOCK_BYTES".into(), format.block_bytes.to_string()));
            all.push(("PLANES".into(), format.planes.len().to_string()));
            for (i, plane) in format.planes.iter().enumerate() {
                all.push((format!("PLANE{i}_BYTES"), plane.len.to_string()));
            }
        }
        all
    }
}
