//! The engine: a loaded model on one executor.

use crate::execute::Executor;
use crate::sequence::Pool;
use crate::validate::Reference;
use crate::{
    Candidates, Cut, Error, KeptStates, LoadOptions, LoadProgress, LogitRow, Logits, OpTime, PageRef, Part,
    PartOutput, Precision, PrefillPath, Products, Routing, Sequence, Summary, ValidateOptions, Want,
};
use std::sync::Arc;
use zinc_cpu::Cpu;
use zinc_gguf::Gguf;
use zinc_model::Model;
use zinc_plan::Row;
use zinc_text::Tokenizer;

/// A model, loaded and ready.
pub struct Engine {
    pub(crate) gguf: Arc<Gguf>,
    pub(crate) model: Model,
    pub(crate) tokenizer: Result<Arc<Tokenizer>, String>,
    pub(crate) backend: Backend,
    pub(crate) pool: Pool,
    pub(crate) summary: Summary,
    /// What every prompt is compared with, in validate mode.
    pub(crate) validate: Option<ValidateOptions>,
    /// The CPU executor beside a device, once validate mode has asked for it.
    pub(crate) reference: Option<Box<Reference>>,
}

/// The executor. Both run the same plan; there are two, and no trait over them.
pub(crate) enum Backend {
    Cpu(Box<CpuBackend>),
    Vulkan(Box<Executor>),
}

/// The CPU executor and the state of its sequences by slot.
pub(crate) struct CpuBackend {
    pub cpu: Cpu,
    pub sequences: Vec<zinc_cpu::Sequence>,
    /// Rows of a step at most.
    pub chunk: usize,
    steps: u64,
    /// Rows of logits of the last step.
    held: Vec<f32>,
}

/// Candidates of a row where the CPU gives them.
const CPU_CANDIDATES: usize = 256;

impl Engine {
    /// Opens a file and loads it.
    ///
    /// # Errors
    /// What is wrong with the file, why its model cannot run, or by how much it does not fit.
    pub fn load(options: &LoadOptions, progress: &mut dyn FnMut(LoadProgress)) -> Result<Engine, Error> {
        let gguf = Gguf::open(&options.model)?;
        Engine::open(Arc::new(gguf), options, progress)
    }

    /// Loads an opened file; `options.model` is not looked at.
    pub fn open(
        gguf: Arc<Gguf>,
        options: &LoadOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Engine, Error> {
        crate::open::open(gguf, options, progress)
    }

    /// Loads an opened file on an opened device.
    pub fn on_device(
        gguf: Arc<Gguf>,
        device: zinc_vulkan::Device,
        options: &LoadOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Engine, Error> {
        let reasons = vec!["the device was given".into()];
        crate::open::on_device(gguf, device, options, reasons, progress)
    }

    /// What was loaded, where it runs, and why there.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What the device that runs the model can do; `None` for the CPU executor.
    pub fn device_capabilities(&self) -> Option<&zinc_vulkan::Capabilities> {
        match &self.backend {
            Backend::Cpu(_) => None,
            Backend::Vulkan(executor) => Some(executor.device().capabilities()),
        }
    }

    /// The file.
    pub fn gguf(&self) -> &Arc<Gguf> {
        &self.gguf
    }

    /// The model's dimensions, rules and plan.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The file's tokenizer.
    ///
    /// # Errors
    /// Why the file has none that works; the model itself runs on token ids all the same.
    pub fn tokenizer(&self) -> Result<&Arc<Tokenizer>, Error> {
        self.tokenizer.as_ref().map_err(|e| Error::Option(e.clone()))
    }

    /// Tokens that a sequence may have.
    pub fn context(&self) -> usize {
        self.summary.context as usize
    }

    /// A new, empty sequence.
    ///
    /// # Errors
    /// [`Error::NoSequence`] when as many exist as the model was loaded for.
    pub fn sequence(&self) -> Result<Sequence, Error> {
        self.pool.sequence(self.is_recurrent()).ok_or(Error::NoSequence { sequences: self.summary.sequences })
    }

    /// A new sequence that begins with `tokens`, whose keys and values are in `pages` and after which recurrent states are `states`: what
    /// [`Sequence::share`] and [`Sequence::share_states`] gave of a sequence that had read the same tokens from its beginning. What is read after them has the same bits as if they had been
    /// read again.
    ///
    /// # Errors
    /// As [`Engine::sequence`]; [`Error::ForeignSequence`]; [`Error::NotShareable`] where the pages do not hold exactly the tokens,
    /// where the model has recurrent states and `states` are not those after the tokens, or on the CPU executor, which has no pages.
    pub fn sequence_of(
        &self,
        tokens: &[u32],
        pages: &[PageRef],
        states: Option<&KeptStates>,
    ) -> Result<Sequence, Error> {
        if !self.shares_pages() {
            return Err(Error::NotShareable("the executor has no pages"));
        }
        if !pages.iter().all(|p| p.belongs_to(&self.pool)) || !states.iter().all(|s| s.belongs_to(&self.pool))
        {
            return Err(Error::ForeignSequence);
        }
        if self.is_recurrent() && !tokens.is_empty() && states.is_none_or(|s| s.tokens() != tokens.len()) {
            return Err(Error::NotShareable("the recurrent states after exactly these tokens were not kept"));
        }
        if tokens.len() != pages.len() * crate::PAGE_TOKENS as usize {
            return Err(Error::NotShareable("the pages do not hold exactly these tokens"));
        }
        let mut sequence = self.sequence()?;
        sequence.begin(tokens, pages, states.filter(|_| !tokens.is_empty()));
        Ok(sequence)
    }

    /// Whether sequences can begin with pages of others.
    pub fn shares_pages(&self) -> bool {
        matches!(self.backend, Backend::Vulkan(_))
    }

    /// Whether the model has recurrent states: what is read cannot be cut but where they were kept ([`Sequence::keep`]).
    pub fn is_recurrent(&self) -> bool {
        !self.model.plan.states.is_empty()
    }

    /// How many more recurrent states can be kept.
    pub fn spare_states(&self) -> usize {
        self.pool.spare_states()
    }

    /// Pages of [`crate::PAGE_TOKENS`] tokens that nobody holds. Sequences need them to grow; kept prefixes hold some.
    pub fn free_pages(&self) -> usize {
        self.pool.free_pages()
    }

    /// Which path prompts take: rows of a step, and why not more.
    pub fn prefill_path(&self) -> PrefillPath {
        match &self.backend {
            Backend::Cpu(cpu) => PrefillPath::of(cpu.chunk as u32, Precision::Exact, Vec::new()),
            Backend::Vulkan(executor) => {
                PrefillPath::of(executor.chunk(), executor.precision(), executor.fallbacks().to_vec())
            }
        }
    }

    /// Tokens of a step of a prompt where none are asked for and none were measured.
    pub fn default_steps(&self) -> u32 {
        match &self.backend {
            Backend::Cpu(cpu) => cpu.chunk as u32,
            Backend::Vulkan(executor) => executor.default_steps(),
        }
    }

    /// From now on steps have at most `rows` rows and their products are cut like this: for measurements on a model that stays loaded.
    /// No cut but [`Cut::SerialK`] changes a bit of what is computed.
    ///
    /// # Errors
    /// More rows than the model was loaded for; a product that cannot be cut so; a cut on the CPU executor. Nothing changes then.
    pub fn set_steps(&mut self, rows: u32, cut: Cut) -> Result<(), Error> {
        match &mut self.backend {
            Backend::Cpu(_) if cut != Cut::Policy => {
                Err(Error::Option("products are not cut on the CPU executor".into()))
            }
            Backend::Cpu(cpu) => {
                cpu.chunk = rows.max(1) as usize;
                Ok(())
            }
            Backend::Vulkan(executor) => executor.set_steps(rows, cut),
        }
    }

    /// Waits for the pipelines that are made in the background since the load, so that no step does so anymore: before measurements.
    pub fn finish_warming(&mut self) {
        if let Backend::Vulkan(executor) = &mut self.backend {
            executor.finish_warming();
        }
    }

    /// How products are cut; [`Cut::Policy`] on the CPU.
    pub fn cut(&self) -> Cut {
        match &self.backend {
            Backend::Cpu(_) => Cut::Policy,
            Backend::Vulkan(executor) => executor.cut().clone(),
        }
    }

    /// The products of a step of `rows` rows, one of them with logits, their kernels and how they are cut. Empty on the CPU.
    pub fn products(&self, rows: u32) -> Result<Vec<Products>, Error> {
        match &self.backend {
            Backend::Cpu(_) => Ok(Vec::new()),
            Backend::Vulkan(executor) => executor.products(rows),
        }
    }

    /// Reads `tokens` after what the sequence holds: [`Engine::forward_batch`] of one part. Returns a row of logits for each token that
    /// wants them; candidates are for batches.
    pub fn forward(&mut self, sequence: &mut Sequence, tokens: &[u32], want: Want) -> Result<Logits, Error> {
        if want == Want::Candidates {
            return Err(Error::Option("candidates are given by `forward_batch`, not by `forward`".into()));
        }
        match self.forward_batch(&mut [Part { sequence, tokens, want }])?.pop() {
            Some(PartOutput::Logits(logits)) => Ok(logits),
            _ => Ok(Logits { vocab: self.summary.vocab as usize, values: Vec::new() }),
        }
    }

    /// Reads `tokens` after what the sequence holds, and tells by layer how often each expert was chosen. The counts are read back between
    /// steps, so this is no way to read fast. Empty on the CPU and for models without experts.
    pub fn routing(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<Routing>, Error> {
        let mut all: Vec<Routing> = Vec::new();
        let chunk = self.prefill_path().chunk.max(1) as usize;
        let steps = tokens.chunks(chunk);
        let last = steps.len().saturating_sub(1);
        for (i, step) in steps.enumerate() {
            let want = if i == last { Want::Last } else { Want::None };
            self.forward(sequence, step, want)?;
            let Backend::Vulkan(executor) = &mut self.backend else { return Ok(all) };
            for routing in executor.routing(step.len(), want.logit_rows(step.len()))? {
                match all.iter_mut().find(|r| r.layer == routing.layer) {
                    Some(sum) => {
                        sum.rows += routing.rows;
                        sum.slots.iter_mut().zip(&routing.slots).for_each(|(a, b)| *a += b);
                    }
                    None => all.push(routing),
                }
            }
        }
        all.sort_by_key(|r| r.layer);
        Ok(all)
    }

    /// Runs a step of these tokens (of one: a decode step; of more than a step has: the first ones) at the end of the sequence with timestamps and gives the GPU time of each
    /// dispatch, in order of execution. The sequence stays as it is. Empty on the CPU, and on devices without timestamps.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`] without tokens, a sequence of another engine or without room, tokens that do not exist, what the executor says.
    pub fn profile_step(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<OpTime>, Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let tokens = &tokens[..tokens.len().min(self.prefill_path().chunk as usize)];
        self.check(sequence, tokens)?;
        match &mut self.backend {
            Backend::Cpu(_) => Ok(Vec::new()),
            Backend::Vulkan(executor) => executor.profile_step(sequence, tokens),
        }
    }

    /// Checks that a sequence is ours, that it has room, and that the tokens exist.
    pub(crate) fn check(&self, sequence: &Sequence, tokens: &[u32]) -> Result<(), Error> {
        if !sequence.belongs_to(&self.pool) {
            return Err(Error::ForeignSequence);
        }
        self.check_tokens(sequence.len(), tokens)
    }

    /// Checks that there is room for tokens after `held` others, and that they exist.
    pub(crate) fn check_tokens(&self, held: usize, tokens: &[u32]) -> Result<(), Error> {
        let (total, context) = (held + tokens.len(), self.context());
        if total > context {
            return Err(Error::ContextFull { tokens: total, context });
        }
        let vocab = self.summary.vocab;
        match tokens.iter().find(|&&t| t >= vocab) {
            Some(&token) => Err(Error::TokenOutOfRange { token, vocab }),
            None => Ok(()),
        }
    }
}

impl CpuBackend {
    pub fn new(cpu: Cpu, sequences: u32, context: u32, chunk: usize) -> CpuBackend {
        let sequences = (0..sequences).map(|_| cpu.new_sequence(context)).collect();
        CpuBackend { cpu, sequences, chunk, steps: 0, held: Vec::new() }
    }

    /// One step of rows of any sequences: what each part wants.
    pub fn forward(&mut self, parts: &[Part<'_>]) -> Result<Vec<PartOutput>, Error> {
        let rows: Vec<Row> = parts.iter().flat_map(|p| p.rows()).collect();
        for part in parts {
            // The slot's state may be that of a longer text, or of a sequence that was dropped.
            self.sequences[part.sequence.slot() as usize].truncate(part.sequence.len() as u32);
        }
        self.steps += 1;
        self.held = self.cpu.forward(&rows, &mut self.sequences)?.into_vec();
        let vocab = self.cpu.plan().vocab() as usize;
        let mut row = 0;
        let output = |part: &Part<'_>| {
            let (first, n) = (row, part.logit_rows());
            row += n;
            let values = &self.held[first * vocab..row * vocab];
            match part.want {
                Want::None => PartOutput::Nothing,
                Want::Last | Want::All => PartOutput::Logits(Logits { vocab, values: values.to_vec() }),
                Want::Candidates => PartOutput::Candidates {
                    best: Candidates::of_row(values, CPU_CANDIDATES),
                    row: LogitRow { step: self.steps, row: first as u32 },
                },
            }
        };
        Ok(parts.iter().map(output).collect())
    }

    /// The last row of logits of the last step; empty where it had none.
    pub fn last_row(&self) -> &[f32] {
        self.held.rchunks_exact(self.cpu.plan().vocab() as usize).next().unwrap_or_default()
    }

    /// A full row of the last step.
    pub fn logit_row(&self, row: LogitRow) -> Result<Vec<f32>, Error> {
        let vocab = self.cpu.plan().vocab() as usize;
        let values = self.held.chunks_exact(vocab).nth(row.row as usize);
        match values {
            Some(values) if row.step == self.steps => Ok(values.to_vec()),
            _ => Err(Error::StaleResult { step: row.step, held: self.steps }),
        }
    }
}
