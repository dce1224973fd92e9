//! `zinc tune`: measures how products are best cut and how wide steps are best on this device, and keeps the answer for all later loads.

mod steps;

use crate::args::{DeviceArg, byte_size};
use crate::bench::report::{headline, product_json, product_name, program};
use crate::device;
use crate::error::{Outcome, error, usage};
use crate::load::{PolicyArg, tell};
use crate::output::{self, Align, Table, plural};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use steps::Steps;
use zinc_engine::{Cut, LoadOptions, Measured, Precision, Shape, Target, TunedFile, compile};
use zinc_gguf::Gguf;
use zinc_kernels::gemv::{ProductClass, TuneResult, TuneShape, tune};
use zinc_kernels::kv::KvType;
use zinc_kernels::product::{
    BenchShape, ExpertClass, ExpertResult, ExpertShape, ExpertTile, FastResult, Product, tune_experts,
    tune_fast,
};
use zinc_kernels::{GemvShape, Kernels, Policy};
use zinc_model::Model;
use zinc_plan::Plan;
use zinc_quant::by_name;
use zinc_vulkan::{CacheLocation, Capabilities};

/// Measures how products are best cut on this device, for a model's products or for given ones, and how many tokens of a prompt a step
/// of the model best reads; and stores it.
///
/// Later loads on the same device, driver and build of zinc use what was found. No bit of any exact result changes: only what does not
/// decide the order of sums is tuned. Under the fast policy kernels are chosen as well, by number of columns. It takes minutes, in which the device
/// should do nothing else.
#[derive(clap::Args)]
pub struct Args {
    /// The model whose products to tune: a GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Option<PathBuf>,
    /// A product to tune, such as `Q4_K:4096x12288` (rows x elements of a row), with `:gated` behind it for two matrices; may be repeated.
    #[arg(long, value_name = "FORMAT:ROWSxINNER", value_parser = product)]
    shape: Vec<ProductClass>,
    /// Numbers of columns to tune for; others use the next larger of them, or the largest.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,8,16,32,64,256", value_parser = clap::value_parser!(u32).range(1..=4096))]
    columns: Vec<u32>,
    /// Tune one of both for the model [default: both].
    #[arg(long, value_enum, value_name = "WHAT", requires = "model")]
    only: Option<OnlyArg>,
    /// Tokens of a step to try with the model.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "128,256,512,1024,2048", value_parser = clap::value_parser!(u32).range(1..=LoadOptions::MAX_CHUNK as i64))]
    chunks: Vec<u32>,
    /// Arithmetic that products and steps are measured with [default: that of a load; of products without a model: exact].
    #[arg(long, value_enum)]
    policy: Option<PolicyArg>,
    /// Bytes of matrices to go through in turn: more than the device's cache.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = byte_size)]
    rotate: u64,
    /// Only show what would be stored.
    #[arg(long, conflicts_with = "reset")]
    dry_run: bool,
    /// Forget what was stored for this device, driver and build.
    #[arg(long, conflicts_with_all = ["model", "shape"])]
    reset: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArg,
}

/// The values of `--only`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnlyArg {
    /// How products are cut
    Products,
    /// How many tokens a step reads
    Steps,
}

fn product(text: &str) -> Result<ProductClass, String> {
    let parsed = || {
        let (text, gated) = text.strip_suffix(":gated").map_or((text, false), |t| (t, true));
        let (format, size) = text.split_once(':')?;
        let (m, k) = size.split_once('x')?;
        let class = ProductClass { format: by_name(format)?, m: m.parse().ok()?, k: k.parse().ok()?, gated };
        let whole = class.k > 0 && (class.k as usize).is_multiple_of(class.format.block_elems);
        (class.m > 0 && whole).then_some(class)
    };
    parsed().ok_or_else(|| "not a format and a size of whole blocks, such as Q4_K:4096x12288".into())
}

/// A product that was tuned.
struct Found {
    class: ProductClass,
    columns: u32,
    result: Best,
}

/// What takes a product best.
enum Best {
    /// This kernel and tile, of a product of experts among so many, of which a row uses some.
    Experts(ExpertResult, u32, u32),
    /// The exact kernel, in this shape.
    Exact(TuneResult),
    /// This kernel and tile of the fast ones.
    Fast(FastResult),
}

impl Best {
    /// Microseconds, those of the policy's own, and how many ways were measured.
    fn figures(&self) -> (f64, f64, usize) {
        match self {
            Best::Exact(r) => (r.us, r.policy_us, r.tried),
            Best::Experts(r, ..) => (r.us, r.policy_us, r.tried),
            Best::Fast(r) => (r.us, r.policy_us, r.tried),
        }
    }

    /// Of how many experts, in a word.
    fn of(&self) -> String {
        match self {
            Best::Experts(_, experts, top_k) => format!(" {top_k} of {experts}"),
            _ => String::new(),
        }
    }

    fn name(&self) -> String {
        match self {
            Best::Exact(r) => shape_name(&r.shape),
            Best::Experts(r, ..) => {
                format!("{}, {}", product_name(r.tile.product), plural(r.tile.slots as usize, "slot"))
            }
            Best::Fast(r) => product_name(r.product),
        }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let caps = device.capabilities().clone();
    let file = TunedFile::of(&caps, &CacheLocation::User)
        .ok_or_else(|| error("there is no folder for caches", "`ZINC_CACHE_DIR` names one"))?;
    if args.reset {
        let said = if file.remove()? { "removed" } else { "there was nothing in" };
        return Ok(writeln!(out, "{said} {}", file.path().display())?);
    }
    let kernels = Kernels::new(&device);
    let mut products: Vec<(ProductClass, u32)> = Vec::new();
    for &class in &args.shape {
        products.extend(args.columns.iter().map(|&columns| (class, columns)));
    }
    if let Some(model) = args.model.as_ref().filter(|_| args.only != Some(OnlyArg::Steps)) {
        products.extend(of_model(model, &kernels, &args.columns)?);
    }
    if products.is_empty() && args.model.is_none() {
        return Err(usage(
            "there is nothing to tune",
            "`-m FILE` tunes a model's products, `--shape` a product",
        ));
    }
    let precision = products_precision(args, kernels.policy())?;
    let mut found = Vec::new();
    for (i, &(class, columns)) in products.iter().enumerate() {
        let ProductClass { format, m, k, gated } = class;
        tell(&[format!(
            "{} of {}: {format} {m}x{k}{}, {}",
            i + 1,
            products.len(),
            if gated { " gated" } else { "" },
            plural(columns as usize, "column")
        )]);
        let (rotate_bytes, warm_up) = (args.rotate, WARM_UP);
        let shape = TuneShape { class, columns, rotate_bytes, warm_up };
        let result = match precision {
            Precision::Exact => tune(&kernels, &shape).map(Best::Exact),
            Precision::Fast => tune_fast(&kernels, &shape).map(Best::Fast),
        };
        let result = result.map_err(|e| error(e, "a smaller `--rotate` needs less memory"))?;
        found.push(Found { class, columns, result });
    }
    if let Some(model) = args.model.as_ref().filter(|_| args.only != Some(OnlyArg::Steps)) {
        found.extend(of_experts(model, &kernels, args, precision)?);
    }
    let mut measured = stored(&file);
    keep(&mut measured, &found, precision)?;
    let steps = match &args.model {
        Some(model) if args.only != Some(OnlyArg::Products) => {
            Some(steps::tune(device, args, model, &mut measured)?)
        }
        _ => None,
    };
    if !args.dry_run {
        file.write(&measured)?;
    }
    let report =
        Report { caps: &caps, file: &file, dry_run: args.dry_run, found: &found, steps: steps.as_ref() };
    match args.json {
        true => Ok(output::json(out, &report.as_json())?),
        false => report.as_text(out),
    }
}

/// What is reported.
struct Report<'a> {
    caps: &'a Capabilities,
    file: &'a TunedFile,
    dry_run: bool,
    found: &'a [Found],
    steps: Option<&'a Steps>,
}

/// What products are measured with.
fn products_precision(args: &Args, policy: &Policy) -> Outcome<Precision> {
    Ok(match (args.policy, &args.model) {
        (Some(asked), _) => asked.precision(),
        (None, Some(model)) => LoadOptions::default_precision(&plan_of(model)?, policy),
        (None, None) => Precision::Exact,
    })
}

fn plan_of(model: &Path) -> Outcome<Plan> {
    Ok(Model::from_gguf(&Gguf::open(model)?).map_err(zinc_engine::Error::from)?.plan)
}

/// The device works without a pause, so its clocks are up after the first measurement.
const WARM_UP: Duration = Duration::from_millis(BenchShape::WARM_UP.as_millis() as u64 / 4);

/// The products of steps of these numbers of rows, each once.
fn of_model(model: &Path, kernels: &Kernels, columns: &[u32]) -> Outcome<Vec<(ProductClass, u32)>> {
    let plan = plan_of(model)?;
    let (caps, policy) = (kernels.caps(), kernels.policy());
    let precision = Precision::Exact;
    let (kv_type, cut) = (KvType::F16, &Cut::Policy);
    let target = Target { caps, policy, precision, kv_type, cut, fuse: true, keep: false };
    let mut products: Vec<(ProductClass, u32)> = Vec::new();
    for &rows in columns {
        let schedule =
            compile(&plan, &target, Shape::new(rows, 1)).map_err(zinc_engine::Error::Unsupported)?;
        // Those of experts are for `of_experts`.
        for p in schedule.products(&plan).into_iter().filter(|p| p.experts.is_none()) {
            let product = (p.class, p.columns);
            if !products.contains(&product) {
                products.push(product);
            }
        }
    }
    Ok(products)
}

/// Tunes the products of experts of a model's steps, of few rows and of prompts' steps.
fn of_experts(model: &Path, kernels: &Kernels, args: &Args, precision: Precision) -> Outcome<Vec<Found>> {
    let plan = plan_of(model)?;
    let (caps, policy, kv_type, cut) = (kernels.caps(), kernels.policy(), KvType::F16, &Cut::Policy);
    let target = Target { caps, policy, precision, kv_type, cut, fuse: true, keep: false };
    let mut rows: Vec<u32> = args.columns.iter().chain(&args.chunks).copied().collect();
    rows.sort_unstable();
    rows.dedup();
    let mut found = Vec::new();
    for rows in rows {
        let schedule =
            compile(&plan, &target, Shape::new(rows, 1)).map_err(zinc_engine::Error::Unsupported)?;
        // Products of the last layer, which skips rows without logits, are those of fewer rows.
        let mut kinds: BTreeMap<(u32, u32), Vec<ProductClass>> = BTreeMap::new();
        for p in schedule.products(&plan).into_iter().filter(|p| p.columns == rows) {
            let Some(g) = p.experts else { continue };
            let classes = kinds.entry((g.experts, g.top_k)).or_default();
            if !classes.contains(&p.class) {
                classes.push(p.class);
            }
        }
        for ((experts, top_k), classes) in kinds {
            let name = plural(rows as usize, "row");
            tell(&[format!("{} of {top_k} of {experts} experts, {name}", plural(classes.len(), "product"))]);
            let shape = ExpertShape { classes, experts, top_k, rows, precision, warm_up: WARM_UP };
            let results = tune_experts(kernels, &shape)
                .map_err(|e| error(e, "`--only steps` leaves products as they are"))?;
            let of = |r: ExpertResult| Found {
                class: r.class,
                columns: rows,
                result: Best::Experts(r, experts, top_k),
            };
            found.extend(results.into_iter().map(of));
        }
    }
    Ok(found)
}

/// What is stored already.
fn stored(file: &TunedFile) -> Measured {
    match file.read() {
        Ok(measured) => measured.unwrap_or_default(),
        Err(why) => {
            tell(&[format!("note: {why}; it is replaced")]);
            Measured::default()
        }
    }
}

/// Adds what was found; of a class that was tuned again the old shapes go.
fn keep(measured: &mut Measured, found: &[Found], precision: Precision) -> Outcome {
    let mut exact: BTreeMap<ProductClass, Vec<GemvShape>> = BTreeMap::new();
    let mut fast: BTreeMap<ProductClass, Vec<(u32, Product)>> = BTreeMap::new();
    let mut of_experts: BTreeMap<ExpertClass, Vec<ExpertTile>> = BTreeMap::new();
    for f in found {
        match &f.result {
            &Best::Experts(r, experts, top_k) => {
                let class = ExpertClass { class: f.class, experts, top_k };
                of_experts.entry(class).or_default().push(r.tile);
            }
            Best::Exact(r) => exact.entry(f.class).or_default().push(r.shape),
            Best::Fast(r) => fast.entry(f.class).or_default().push((f.columns, r.product)),
        }
    }
    for (class, shapes) in exact {
        measured.tiles.insert(class, shapes).map_err(|e| error(e, "please report this"))?;
    }
    fast.into_iter().for_each(|(class, products)| measured.tiles.fast.insert(class, products));
    let experts = &mut measured.tiles.experts;
    of_experts.into_iter().for_each(|(class, tiles)| experts.insert(class, precision, tiles));
    Ok(())
}

/// Rows, columns, subgroups and stage in a word.
fn shape_name(s: &GemvShape) -> String {
    let spread = if s.spread { " spread" } else { "" };
    format!("{}x{} {}s stage {}K{spread}", s.rows, s.columns, s.subgroups, s.stage_bytes >> 10)
}

impl Report<'_> {
    fn as_text(&self, out: &mut dyn Write) -> Outcome {
        let caps = self.caps;
        writeln!(out, "{}\n", headline(caps))?;
        let mut table = Table::new(&[
            ("format", Align::Left),
            ("product", Align::Left),
            ("columns", Align::Right),
            ("tried", Align::Right),
            ("policy us", Align::Right),
            ("tuned us", Align::Right),
            ("times", Align::Right),
            ("best", Align::Left),
        ]);
        for Found { class, columns, result } in self.found {
            let (us, policy_us, tried) = result.figures();
            table.row([
                class.format.to_string(),
                format!("{}x{}{}{}", class.m, class.k, if class.gated { " gated" } else { "" }, result.of()),
                columns.to_string(),
                tried.to_string(),
                format!("{policy_us:.2}"),
                format!("{us:.2}"),
                format!("{:.2}", policy_us / us),
                if us < policy_us { result.name() } else { "the policy's".into() },
            ]);
        }
        if !self.found.is_empty() {
            table.write(out, 0)?;
            writeln!(out)?;
        }
        if let Some(steps) = self.steps {
            steps.as_text(out)?;
            writeln!(out)?;
        }
        let said = if self.dry_run { "would be stored in" } else { "stored in" };
        Ok(writeln!(out, "{said} {}", self.file.path().display())?)
    }

    fn as_json(&self) -> Value {
        let results: Vec<Value> = self
            .found
            .iter()
            .map(|Found { class, columns, result }| {
                let (us, policy_us, tried) = result.figures();
                json!({
                    "format": class.format.name, "rows": class.m, "inner": class.k, "gated": class.gated,
                    "columns": columns, "tried": tried, "policy_us": policy_us, "tuned_us": us,
                    "best": match result {
                        Best::Exact(r) => {
                            let s = r.shape;
                            json!({
                                "kernel": "gemv", "up_to": s.up_to, "rows": s.rows, "columns": s.columns,
                                "spread": s.spread, "subgroups": s.subgroups, "stage_bytes": s.stage_bytes,
                            })
                        }
                        Best::Experts(r, experts, top_k) => json!({
                            "kernel": r.tile.product.family(), "tile": product_json(r.tile.product), "slots_a_tile": r.tile.slots,
                            "of": experts, "used": top_k,
                        }),
                        Best::Fast(r) => json!({ "kernel": r.product.family(), "tile": product_json(r.product) }),
                    },
                })
            })
            .collect();
        let caps = self.caps;
        json!({
            "zinc": program(), "device": caps.name, "driver": caps.driver_name(),
            "file": self.file.path().display().to_string(), "stored": !self.dry_run, "results": results,
            "steps": self.steps.map(Steps::as_json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_a_format_and_whole_blocks() {
        let class = product("q4_k:4096x12288:gated").unwrap();
        assert_eq!((class.format.name, class.m, class.k, class.gated), ("Q4_K", 4096, 12288, true));
        assert!(!product("Q8_0:8x32").unwrap().gated);
        for bad in
            ["", "Q4_K", "Q4_K:4096", "Q4_K:8x100", "Q4_K:0x256", "Q4_K:8x0", "Q9:8x256", "Q4_K:8x256:gate"]
        {
            assert!(product(bad).is_err(), "{bad}");
        }
    }
}
