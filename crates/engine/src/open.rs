//! Loading: the choice of a backend, with reasons.

use crate::engine::{Backend, CpuBackend};
use crate::execute::Executor;
use crate::sequence::Pool;
use crate::{
    BackendWish, Cut, Engine, Error, KvType, LoadOptions, LoadProgress, PrefillMode, Summary, TunedFile,
    tuned::{Measured, model_class},
};
use std::sync::Arc;
use std::time::Instant;
use zinc_cpu::Cpu;
use zinc_gguf::Gguf;
use zinc_kernels::{Policy, Precision};
use zinc_model::Model;
use zinc_text::Tokenizer;
use zinc_vulkan::{Device, DeviceOptions, DeviceWish, Instance, InstanceOptions, choose};

/// Rows of a prefill step on the CPU.
const CPU_CHUNK: usize = 64;

pub(crate) fn open(
    gguf: Arc<Gguf>,
    options: &LoadOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Engine, Error> {
    let (device, reasons) = device(options)?;
    let Some(device) = device else { return on_cpu(gguf, options, reasons) };
    match on_device(gguf.clone(), device, options, reasons, progress) {
        Err(Error::Unsupported(why)) if may_fall_back(options) => {
            on_cpu(gguf, options, vec![format!("{}, so the CPU executor runs the model", why.in_short())])
        }
        answer => answer,
    }
}

/// Only `auto` without a named device may do without one.
fn may_fall_back(options: &LoadOptions) -> bool {
    options.backend == BackendWish::Auto && options.device == DeviceWish::Auto
}

/// What both backends need of a file.
struct Opened {
    started: Instant,
    model: Model,
    tokenizer: Result<Arc<Tokenizer>, String>,
    /// Of the CPU executor; Vulkan replaces what differs.
    summary: Summary,
}

fn read(gguf: &Gguf, options: &LoadOptions, reasons: Vec<String>) -> Result<Opened, Error> {
    let started = Instant::now();
    let model = Model::from_gguf(gguf)?;
    if options.sequences == 0 || options.chunk == Some(0) {
        return Err(Error::Option("sequences and chunk must be at least 1".into()));
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let summary = Summary {
        backend: "cpu",
        device: format!("{threads} threads"),
        driver: String::new(),
        reasons,
        notes: model.notes.clone(),
        architecture: model.spec.architecture.into(),
        policy: Precision::Exact.name(),
        tiles: "",
        steps: "",
        kv_type: KvType::F32.name(),
        context: context(&model, options)?,
        sequences: options.sequences,
        vocab: model.plan.vocab(),
        memory: Vec::new(),
        load_seconds: 0.0,
    };
    let tokenizer = Tokenizer::from_metadata(gguf.metadata(), options.pretokenizer.as_deref());
    Ok(Opened { started, model, tokenizer: tokenizer.map(Arc::new).map_err(|e| e.to_string()), summary })
}

fn on_cpu(gguf: Arc<Gguf>, options: &LoadOptions, reasons: Vec<String>) -> Result<Engine, Error> {
    let Opened { started, model, tokenizer, mut summary } = read(&gguf, options, reasons)?;
    if options.prefill == PrefillMode::Validate {
        let why = format!(
            "the CPU executor runs the model, and it is the reference ({})",
            summary.reasons.join("; ")
        );
        return Err(crate::validate::nothing_to_compare(&why));
    }
    let cpu = Cpu::new(gguf.clone(), model.plan.clone())?;
    let chunk = if options.rows(CPU_CHUNK as u32) == 1 { 1 } else { CPU_CHUNK };
    let backend = CpuBackend::new(cpu, options.sequences, summary.context, chunk);
    let backend = Backend::Cpu(Box::new(backend));
    summary.load_seconds = started.elapsed().as_secs_f64();
    let pool = Pool::new(options.sequences, 0..0);
    Ok(Engine { gguf, model, tokenizer, backend, pool, summary, validate: None, reference: None })
}

pub(crate) fn on_device(
    gguf: Arc<Gguf>,
    device: Device,
    options: &LoadOptions,
    reasons: Vec<String>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Engine, Error> {
    let Opened { started, model, tokenizer, summary } = read(&gguf, options, reasons)?;
    let caps = device.capabilities().clone();
    let plan = Arc::new(model.plan.clone());
    let (measured, note) = match TunedFile::of(&caps, &options.cache).map_or(Ok(None), |file| file.read()) {
        Ok(measured) => (measured.unwrap_or_default(), None),
        Err(why) => (Measured::default(), Some(why)),
    };
    let precision = options.precision_for(&plan, &Policy::of(&caps));
    let tuned_chunk = measured.chunks.get(&model_class(&model, precision)).copied();
    let steps = match (options.chunk, tuned_chunk) {
        (Some(_), _) => "asked for",
        (None, Some(_)) => "tuned",
        (None, None) => "default",
    };
    let options =
        &LoadOptions { chunk: options.chunk.or(tuned_chunk), precision: Some(precision), ..options.clone() };
    let tuned = measured.tiles.products() > 0;
    let (tiles, cut) = match tuned {
        true => ("tuned", Cut::Tuned(Arc::new(measured.tiles))),
        false => ("policy", Cut::Policy),
    };
    let executor = Executor::new(device, &gguf, plan, summary.context, options, cut, progress)?;
    if options.validation {
        check_validation(executor.device())?;
    }
    let summary = Summary {
        backend: "vulkan",
        driver: caps.driver_name(),
        device: caps.name,
        kv_type: options.kv_type.name(),
        policy: precision.name(),
        tiles,
        steps,
        notes: summary.notes.iter().cloned().chain(note).collect(),
        memory: executor.memory().items.clone(),
        load_seconds: started.elapsed().as_secs_f64(),
        ..summary
    };
    let pool = Pool::new(options.sequences, 0..executor.page_count()).with_states(executor.state_slots());
    let backend = Backend::Vulkan(Box::new(executor));
    let validate = (options.prefill == PrefillMode::Validate).then(|| options.validate.clone());
    Ok(Engine { gguf, model, tokenizer, backend, pool, summary, validate, reference: None })
}

/// The context to plan for.
pub(crate) fn context(model: &Model, options: &LoadOptions) -> Result<u32, Error> {
    let trained = model.spec.context_length.max(1);
    match options.context {
        None => Ok(trained.min(LoadOptions::DEFAULT_CONTEXT)),
        Some(0) => Err(Error::Option("a context of 0 tokens holds nothing".into())),
        Some(n) if n > trained => Err(Error::Option(format!(
            "a context of {n} tokens was asked for, the model was trained for {trained}\nhint: use `--ctx {trained}` or less"
        ))),
        Some(n) => Ok(n),
    }
}

/// The device to use, `None` for the CPU executor, and the reasons.
fn device(options: &LoadOptions) -> Result<(Option<Device>, Vec<String>), Error> {
    if options.backend == BackendWish::Cpu {
        return Ok((None, vec!["the CPU executor was asked for".into()]));
    }
    let chosen = Instance::new(&InstanceOptions { validation: options.validation })
        .and_then(|instance| open_device(&instance, options));
    match chosen {
        Ok((device, reasons)) => Ok((Some(device), reasons)),
        Err(e) if may_fall_back(options) => {
            Ok((None, vec![format!("no GPU, so the CPU executor runs the model: {e}")]))
        }
        Err(e) => Err(e.into()),
    }
}

fn open_device(
    instance: &Instance,
    options: &LoadOptions,
) -> Result<(Device, Vec<String>), zinc_vulkan::Error> {
    let devices = instance.devices();
    let real = choose(&devices, &options.device, false);
    // Vulkan was asked for by name, so a software driver is better than nothing.
    let choice = match options.backend {
        BackendWish::Vulkan => real.or_else(|_| choose(&devices, &options.device, true))?,
        BackendWish::Auto | BackendWish::Cpu => real?,
    };
    let device_options = DeviceOptions { cache: options.cache.clone(), ..Default::default() };
    Ok((Device::open(instance, choice.index, &device_options)?, choice.reasons))
}

/// Fails with what the validation layer said so far.
fn check_validation(device: &Device) -> Result<(), Error> {
    let messages = device.instance().validation_messages();
    if messages.is_empty() { Ok(()) } else { Err(Error::ValidationLayer(messages.join("\n"))) }
}
