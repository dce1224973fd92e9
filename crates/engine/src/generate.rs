//! Prompt in, text out.

use crate::engine::Backend;
use crate::execute::Greedy;
use crate::{
    Choices, Engine, Error, GenerateOptions, Part, PrefillPath, Sampler, Sequence, Stats, StopReason, Want,
};
use std::ops::ControlFlow;
use std::time::Instant;
use zinc_text::{Detokenizer, StopStrings, Tokenizer};

/// What happens during a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The prompt is being read.
    Prefill {
        /// Tokens read.
        done: usize,
        /// Tokens to read.
        total: usize,
    },
    /// A token was chosen.
    Token {
        /// Its id.
        id: u32,
        /// Whole characters that are now certain to be part of the text; often those of earlier tokens.
        text: String,
    },
    /// Text that was held back, at the end.
    Rest {
        /// The text.
        text: String,
    },
}

/// Tokens at the end of a prompt that a later one may lack, though it begins like it: those by which a template opens an answer.
const OPENING: usize = 8;

/// Called with each event; breaking off ends the generation after the present token.
pub type OnEvent<'a> = dyn FnMut(Event) -> ControlFlow<()> + 'a;

impl Engine {
    /// Continues `prompt`: all tokens of the text so far, from its beginning. What the sequence already holds of it is not computed
    /// again. Afterwards the sequence holds the prompt and the generated tokens but the last.
    ///
    /// # Errors
    /// [`Error::ContextFull`] when the prompt does not fit; options out of range; what the executor says; in validate mode
    /// [`Error::Validation`].
    pub fn generate(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        options: &GenerateOptions,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Stats, Error> {
        options.sampling.check().map_err(Error::Option)?;
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.check(sequence, &[])?;
        let reused = sequence.reuse(prompt);
        self.check(sequence, &prompt[reused..])?;
        let mut run = Run {
            started: Instant::now(),
            first: None,
            submissions: self.submissions(),
            generated: Vec::new(),
            choices: Choices::default(),
        };
        let validation = self.validate_prompt(sequence, prompt)?;
        let stop = self.run(sequence, prompt, options, &mut run, on_event)?;
        sequence.truncate(sequence.len()); // gives back the pages that were reserved for more tokens
        let first = run.first.unwrap_or_else(Instant::now);
        let (dispatches, barriers) = match &self.backend {
            Backend::Cpu(_) => (0, 0),
            Backend::Vulkan(executor) => executor.decode_counts(),
        };
        Ok(Stats {
            prompt_tokens: prompt.len(),
            reused_tokens: reused,
            generated: run.generated.len(),
            prefill_seconds: (first - run.started).as_secs_f64(),
            decode_seconds: first.elapsed().as_secs_f64(),
            stop,
            prefill: self.prefill_path(),
            validation,
            choices: run.choices,
            dispatches_per_token: dispatches,
            barriers_per_token: barriers,
            submissions: self.submissions() - run.submissions,
        })
    }

    /// Reads the prompt but its last token, then chooses tokens until something ends it.
    fn run(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        options: &GenerateOptions,
        run: &mut Run,
        on_event: &mut OnEvent<'_>,
    ) -> Result<StopReason, Error> {
        let (start, total) = (sequence.len(), prompt.len() - sequence.len());
        // All but the last step; that one also gives the first token.
        loop {
            let left = prompt.len() - sequence.len();
            // Where states are to be kept a step ends.
            let before_opening =
                left.checked_sub(OPENING).filter(|&n| n > 0 && options.keep && self.is_recurrent());
            let rows = self.step_limits().rows.min(before_opening.unwrap_or(left));
            if rows == left && options.max_tokens > 0 || left == 0 {
                break;
            }
            self.forward(sequence, &prompt[sequence.len()..][..rows], Want::None)?;
            if before_opening == Some(rows) {
                sequence.keep();
            }
            let event = Event::Prefill { done: sequence.len() - start, total };
            if on_event(event).is_break() {
                return Ok(StopReason::Cancelled);
            }
        }
        if options.max_tokens == 0 {
            return Ok(StopReason::MaxTokens);
        }
        let room = self.context() - prompt.len() + 1; // the last token needs no place in the cache
        let mut chooser = Chooser::new(self, prompt, options, room);
        let mut text = TextStream::new(self.tokenizer.as_deref().ok(), options);
        let mut feed = prompt[sequence.len()..].to_vec();
        let result = loop {
            let token = chooser.next(&mut self.backend, sequence, &feed, &mut run.choices)?;
            run.first.get_or_insert_with(Instant::now);
            run.generated.push(token);
            feed = vec![token];
            let (delta, hit) = text.push(token);
            let go_on = on_event(Event::Token { id: token, text: delta });
            if let Some(stop) = hit {
                break StopReason::StopString(stop);
            } else if !options.ignore_end && text.ends(token) {
                break StopReason::EndOfGeneration(token);
            } else if go_on.is_break() {
                break StopReason::Cancelled;
            } else if run.generated.len() == options.max_tokens {
                break StopReason::MaxTokens;
            } else if run.generated.len() == room {
                break StopReason::ContextFull;
            }
        };
        chooser.finish(&mut self.backend)?;
        let rest = text.finish();
        if !rest.is_empty() && !matches!(result, StopReason::StopString(_)) {
            let _ = on_event(Event::Rest { text: rest });
        }
        Ok(result)
    }

    fn submissions(&self) -> u64 {
        match &self.backend {
            Backend::Cpu(_) => 0,
            Backend::Vulkan(executor) => executor.submissions(),
        }
    }
}

/// What a generation has done so far.
struct Run {
    started: Instant,
    first: Option<Instant>,
    submissions: u64,
    generated: Vec<u32>,
    choices: Choices,
}

/// Who chooses tokens.
enum Chooser {
    /// The GPU, some steps ahead of the host.
    Greedy(Greedy),
    /// The sampler.
    Sampler(Box<Sampler>),
}

impl Chooser {
    fn new(engine: &Engine, prompt: &[u32], options: &GenerateOptions, room: usize) -> Chooser {
        let sampling = &options.sampling;
        match &engine.backend {
            Backend::Vulkan(_) if sampling.greedy() && !sampling.adjusts() => {
                Chooser::Greedy(Greedy::new(options.max_tokens.min(room)))
            }
            _ => {
                let mut sampler = Sampler::new(sampling.clone());
                sampler.accept(prompt);
                Chooser::Sampler(Box::new(sampler))
            }
        }
    }

    /// Reads `feed` and chooses the token after it.
    fn next(
        &mut self,
        backend: &mut Backend,
        sequence: &mut Sequence,
        feed: &[u32],
        choices: &mut Choices,
    ) -> Result<u32, Error> {
        let token = match (&mut *self, backend) {
            (Chooser::Greedy(greedy), Backend::Vulkan(executor)) => {
                choices.gpu_argmax += 1;
                greedy.next(executor, sequence, feed)?
            }
            (Chooser::Sampler(sampler), Backend::Vulkan(executor)) => {
                let (token, full) = executor.sample(sequence, feed, sampler)?;
                *(if full { &mut choices.full_row } else { &mut choices.candidates }) += 1;
                token
            }
            (Chooser::Sampler(sampler), Backend::Cpu(cpu)) => {
                choices.full_row += 1;
                cpu.forward(&[Part { sequence: &mut *sequence, tokens: feed, want: Want::Last }])?;
                sampler.sample(cpu.last_row())?
            }
            (Chooser::Greedy(_), Backend::Cpu(_)) => unreachable!("the chooser was made for this backend"),
        };
        sequence.push(feed);
        if let Chooser::Sampler(sampler) = self {
            sampler.accept(&[token]);
        }
        Ok(token)
    }

    /// Waits for steps that were submitted ahead.
    fn finish(&mut self, backend: &mut Backend) -> Result<(), Error> {
        match (self, backend) {
            (Chooser::Greedy(greedy), Backend::Vulkan(executor)) => greedy.finish(executor),
            _ => Ok(()),
        }
    }
}

/// Tokens to text, with stop strings.
struct TextStream<'a> {
    tokenizer: Option<&'a Tokenizer>,
    detokenizer: Option<Detokenizer<'a>>,
    stops: StopStrings,
    show_control: bool,
}

impl<'a> TextStream<'a> {
    fn new(tokenizer: Option<&'a Tokenizer>, options: &GenerateOptions) -> TextStream<'a> {
        TextStream {
            tokenizer,
            detokenizer: tokenizer.map(Detokenizer::continuing),
            stops: StopStrings::new(options.stop.iter().cloned()),
            show_control: options.show_control,
        }
    }

    fn ends(&self, token: u32) -> bool {
        self.tokenizer.is_some_and(|t| t.is_end_of_generation(token))
    }

    /// The text that a token makes certain, and the stop string that it completed.
    fn push(&mut self, token: u32) -> (String, Option<String>) {
        let (Some(tokenizer), Some(detokenizer)) = (self.tokenizer, &mut self.detokenizer) else {
            return Default::default();
        };
        if tokenizer.is_control(token) && !self.show_control {
            return Default::default();
        }
        let step = self.stops.push(&detokenizer.push(token));
        (step.emit, step.hit)
    }

    fn finish(&mut self) -> String {
        let Some(detokenizer) = &mut self.detokenizer else { return String::new() };
        let step = self.stops.push(&detokenizer.finish());
        step.emit + &self.stops.finish()
    }
}

impl PrefillPath {
    pub(crate) fn of(
        chunk: u32,
        precision: zinc_kernels::Precision,
        fallbacks: Vec<crate::Fallback>,
    ) -> PrefillPath {
        let path = if chunk > 1 { "batched" } else { "per-token" };
        PrefillPath { path, chunk, policy: precision.name(), fallbacks }
    }
}
