//! What is measured on one card with one subgroup size.

use super::models::MODELS;
use super::{attention, gemm, sweep, waves};
use crate::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use zinc_engine::{Engine, LoadOptions};
use zinc_kernels::{Kernels, Policy, Precision};
use zinc_vulkan::{CacheLocation, Device, DeviceOptions, Instance, InstanceOptions, Pipeline};

/// Everything about a card with a subgroup size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The card.
    pub card: String,
    /// Lanes of a subgroup.
    pub lanes: u32,
    /// Whether the policy takes this size on this card.
    pub default: bool,
    /// The driver and its version.
    pub driver: String,
    /// The pipelines that the engine makes for full-size models.
    pub defaults: Vec<Row>,
    /// Products by width.
    pub sweep: Vec<sweep::Point>,
    /// Products in tiles on matrix cores.
    pub gemm: Vec<gemm::Point>,
    /// Attention on matrix cores by head size.
    pub attention: Vec<attention::Point>,
    /// Every other shader: the worst of the pipelines that the kernels' tests make of it.
    pub others: Vec<Worst>,
}

/// A pipeline and what it is used for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Models and parts.
    pub used: Vec<String>,
    /// Shader and variant.
    pub shader: String,
    /// Specialisation constants in the order of their ids; absent ones are left out.
    pub constants: Vec<(u32, u32)>,
    /// The compiler's figures.
    pub figures: Figures,
}

impl Row {
    /// Notes that a model takes it under one more policy; what both take is named once.
    fn use_for(&mut self, model: &str, precision: Precision) {
        match self.used.last_mut().filter(|used| used.split(' ').next() == Some(model)) {
            Some(both) => *both = model.into(),
            None => self.used.push(format!("{model} {}", precision.name())),
        }
    }
}

/// The compiler's figures of a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Invocations of a workgroup.
    pub invocations: u32,
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Vector and scalar registers that were spilled.
    pub spilled: u32,
    /// Bytes of scratch memory.
    pub scratch: u32,
    /// Bytes of shared memory of a workgroup.
    pub lds: u32,
    /// Waves that a SIMD keeps, by registers and shared memory.
    pub waves: u32,
    /// Bytes of code.
    pub code: u32,
    /// Instructions.
    pub instructions: u32,
    /// Matrix products (`v_wmma_…`) in the disassembly.
    pub wmma: u32,
    /// Integer dot products of four bytes (`v_dot4_…`) there.
    pub dot4: u32,
    /// The compiler's estimates, with guessed trip counts: cycles of a wave, and cycles a wave keeps the busiest unit.
    pub latency: u32,
    pub inverse_throughput: u32,
}

/// A shader that full-size models do not use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Shader and variant.
    pub shader: String,
    /// How many pipelines were made of it; the figures are zeros where none was.
    pub pipelines: u32,
    /// The one with the fewest waves.
    pub figures: Figures,
}

impl Figures {
    /// From the driver's statistics by name.
    ///
    /// # Errors
    /// A statistic that RADV has no more.
    pub fn of(statistics: &BTreeMap<String, f64>, lanes: u32, invocations: u32) -> Result<Figures> {
        let get = |name: &str| {
            let value =
                statistics.get(name).ok_or_else(|| format!("the driver has no statistic `{name}`"))?;
            Ok::<u32, String>(*value as u32)
        };
        let (vgprs, lds) = (get("VGPRs")?, get("LDS size")?);
        Ok(Figures {
            invocations,
            vgprs,
            sgprs: get("SGPRs")?,
            spilled: get("Spilled VGPRs")? + get("Spilled SGPRs")?,
            scratch: get("Scratch size")?,
            lds,
            waves: waves::kept(vgprs, lanes, lds, invocations),
            code: get("Code size")?,
            instructions: get("Instructions")?,
            wmma: 0,
            dot4: 0,
            latency: get("Latency")?,
            inverse_throughput: get("Inverse Throughput")?,
        })
    }

    /// Of a pipeline of a device that keeps statistics.
    pub fn of_pipeline(pipeline: &Pipeline) -> Result<Figures> {
        let lanes = pipeline.subgroup_size().ok_or("a pipeline without a subgroup size")?;
        let figures =
            Figures::of(&pipeline.statistics()?, lanes, pipeline.workgroup_size().iter().product())?;
        let assembly = pipeline.assembly()?;
        let count = |name: &str| assembly.matches(name).count() as u32;
        Ok(Figures { wmma: count("v_wmma_"), dot4: count("v_dot4_"), ..figures })
    }
}

/// Measures everything on the card that this process has.
///
/// # Errors
/// No card, what the driver or the validation layer says.
pub fn measure(card: &str, lanes: u32) -> Result<Run> {
    let instance = Instance::new(&InstanceOptions { validation: true })?;
    let own = instance.devices().into_iter().next().ok_or("no device")?;
    let open = || {
        let options = DeviceOptions {
            cache: CacheLocation::Off,
            subgroup_size: Some(lanes),
            statistics: true,
            ..Default::default()
        };
        Device::open(&instance, own.index, &options)
    };
    let mut defaults: Vec<Row> = Vec::new();
    for model in MODELS {
        let folder = tempfile::tempdir()?;
        let gguf = Arc::new(model.open(&folder.path().join("model.gguf"))?);
        for precision in [Precision::Exact, Precision::Fast] {
            eprintln!("  {}, {} …", model.name, precision.name());
            // A device each, so that its list of pipelines is this engine's.
            for row in of_model(precision, gguf.clone(), open()?)? {
                let same = |r: &Row| (&r.shader, &r.constants) == (&row.shader, &row.constants);
                let at = defaults.iter().position(same).unwrap_or(defaults.len());
                if at == defaults.len() {
                    defaults.push(row);
                }
                defaults[at].use_for(model.name, precision);
            }
        }
    }
    eprintln!("  products and attention by shape …");
    let sweep = sweep::products(&Kernels::new(&open()?))?;
    let gemm = gemm::tiles(&Kernels::new(&open()?))?;
    let attention = attention::tiles(&Kernels::new(&open()?))?;
    eprintln!("  every other shader …");
    let used: HashSet<String> = defaults.iter().map(|row| row.shader.clone()).collect();
    let others = of_suites(&Kernels::new(&open()?), &used)?;
    let messages = instance.validation_messages();
    if !messages.is_empty() {
        return Err(format!("the validation layer says:\n{}", messages.join("\n")).into());
    }
    Ok(Run {
        card: card.into(),
        lanes,
        default: Policy::of(&own).subgroup_size == lanes,
        driver: format!("{} {}", own.driver, own.driver_version),
        defaults,
        sweep,
        gemm,
        attention,
        others,
    })
}

/// The pipelines of all steps that the engine takes with a model, decoding and the widest steps of prompts first.
fn of_model(precision: Precision, gguf: Arc<zinc_gguf::Gguf>, device: Device) -> Result<Vec<Row>> {
    // A context that the card has room for beside any of the models.
    let options = LoadOptions {
        cache: CacheLocation::Off,
        precision: Some(precision),
        context: Some(4096),
        ..LoadOptions::new("")
    };
    let mut engine = Engine::on_device(gguf, device.clone(), &options, &mut |_| ())?;
    engine.finish_warming();
    let row = |p: &Pipeline| {
        Ok(Row {
            used: vec![],
            shader: p.name().to_owned(),
            constants: p.specialization().to_vec(),
            figures: Figures::of_pipeline(p)?,
        })
    };
    device.pipelines().iter().map(row).collect()
}

/// Runs the kernels' own tests for the pipelines that they make; what they compare means nothing here.
fn of_suites(kernels: &Kernels, used: &HashSet<String>) -> Result<Vec<Worst>> {
    for (_, suite) in zinc_kernels::suites() {
        suite(kernels);
    }
    let mut worst: BTreeMap<String, Worst> = BTreeMap::new();
    for pipeline in kernels.device().pipelines() {
        let figures = Figures::of_pipeline(&pipeline)?;
        let shader = pipeline.name().to_owned();
        let entry = worst.entry(shader.clone()).or_insert(Worst { shader, pipelines: 0, figures });
        entry.pipelines += 1;
        if (figures.waves, entry.figures.vgprs) < (entry.figures.waves, figures.vgprs) {
            entry.figures = figures;
        }
    }
    for shader in crate::kernels() {
        let none = Worst { shader: shader.clone(), pipelines: 0, figures: Figures::default() };
        worst.entry(shader).or_insert(none);
    }
    Ok(worst.into_values().filter(|w| !used.contains(&w.shader)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> BTreeMap<String, f64> {
        [
            ("VGPRs", 84.0),
            ("SGPRs", 108.0),
            ("Spilled VGPRs", 2.0),
            ("Spilled SGPRs", 1.0),
            ("Scratch size", 512.0),
            ("LDS size", 16384.0),
            ("Code size", 9000.0),
            ("Instructions", 1200.0),
            ("Latency", 8000.0),
            ("Inverse Throughput", 2500.0),
            ("Subgroups per SIMD", 18.0),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    #[test]
    fn figures_are_read_by_name() {
        let figures = Figures::of(&statistics(), 64, 256).unwrap();
        assert_eq!((figures.vgprs, figures.spilled, figures.scratch), (84, 3, 512));
        assert_eq!(figures.waves, 8, "16 KiB a workgroup leave less than 84 registers do");
        assert_eq!(Figures::of(&statistics(), 32, 128).unwrap().waves, 8);
    }

    #[test]
    fn a_statistic_that_is_missing_is_named() {
        let mut statistics = statistics();
        statistics.remove("Latency");
        let error = Figures::of(&statistics, 64, 256).unwrap_err();
        assert!(error.to_string().contains("`Latency`"), "{error}");
    }
}
