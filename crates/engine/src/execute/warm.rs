//! Pipelines are made before the steps that need them: a driver's compiler takes tens of milliseconds for each, and a step of a new width
//! needs a dozen or two.

use super::{Executor, record};
use crate::Error;
use crate::compile::{Schedule, Shape};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use zinc_kernels::{DeviceClass, Kernels, Wanted};
use zinc_vulkan::RecorderOptions;

/// Whether pipelines are made ahead on devices of a class: where a GPU executes, processors have nothing better to do. A software driver's
/// compiler takes the processors that its kernels run on, and longer than the few steps that anyone runs there.
pub fn ahead(class: DeviceClass) -> bool {
    class != DeviceClass::Software
}

/// Threads that make pipelines, at most: some processors are left to what the program does meanwhile.
const THREADS: usize = 12;

/// Pipelines being made. Dropping it ends that after those that are under way.
pub struct Warming {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Warming {
    /// Begins to make what is wanted, in that order.
    fn begin(kernels: &Kernels, wanted: Vec<Wanted>) -> Warming {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let count = (processors * 3 / 4).clamp(1, THREADS).min(wanted.len());
        let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (wanted, left) = (Arc::new(wanted), Arc::new(AtomicUsize::new(count)));
        let thread = |_| {
            let (kernels, wanted) = (kernels.clone(), wanted.clone());
            let (stop, next, left) = (stop.clone(), next.clone(), left.clone());
            std::thread::spawn(move || {
                while let Some(wanted) = wanted.get(next.fetch_add(1, Ordering::Relaxed))
                    && !stop.load(Ordering::Relaxed)
                {
                    // Whoever needs a pipeline that cannot be made is told so.
                    let _ = kernels.make(wanted);
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    kernels.device().save_pipeline_cache();
                }
            })
        };
        Warming { threads: (0..count).map(thread).collect(), stop }
    }

    /// Waits until all are made.
    pub fn finish(&mut self) {
        // A thread that panicked has made nothing, which its step will do.
        self.threads.drain(..).for_each(|t| _ = t.join());
    }
}

impl Drop for Warming {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.finish();
    }
}

impl Executor {
    /// Begins to make the pipelines of all steps that can occur: first those of decoding and of the widest steps of prompts.
    pub(super) fn warm(&mut self) {
        let (widest, decode) = (self.widths.widest(), Shape::new(1, 1));
        let mut shapes: Vec<Shape> = self.widths.shapes().collect();
        shapes.sort_by_key(|&s| {
            (s != decode, s.rows != widest, s.rows, s.logit_rows != 1, s.logit_rows, !s.apart)
        });
        let schedules: Vec<Arc<Schedule>> =
            shapes.iter().filter_map(|&s| self.schedules.get(&(s, false)).cloned()).collect();
        let (mut known, mut wanted) = (HashSet::new(), Vec::new());
        for schedule in schedules {
            // What cannot be recorded is refused when a step needs it.
            let of_shape = self.pipelines_of(&schedule).unwrap_or_default();
            wanted.extend(of_shape.into_iter().filter(|w| known.insert(w.clone())));
        }
        self.warming = Some(Warming::begin(&self.kernels, wanted));
    }

    /// Waits until no pipelines are being made.
    pub fn finish_warming(&mut self) {
        if let Some(mut warming) = self.warming.take() {
            warming.finish();
        }
    }

    /// The pipelines that a schedule's steps need, whatever their tail. How many keys attention sees changes no pipeline.
    fn pipelines_of(&self, schedule: &Schedule) -> Result<Vec<Wanted>, Error> {
        let kernels = self.kernels.noting();
        let recording = record::Recording {
            kernels: &kernels,
            ..record::Recording::new(self, schedule, self.extents.context, &self.buffers.scratch)
        };
        let mut recorder = self.device.recorder(&RecorderOptions::default())?;
        for step in &schedule.steps {
            recording.step(&mut recorder, step)?;
        }
        if schedule.shape.logit_rows > 0 {
            recording.greedy(&mut recorder)?;
            recording.candidates(&mut recorder)?;
        }
        Ok(kernels.noted())
    }
}
