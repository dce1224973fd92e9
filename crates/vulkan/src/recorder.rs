//! Recording: bindings by declared access, barriers derived from them.

use crate::commands::{Commands, QUERIES, Stamp};
use crate::device::Device;
use crate::dispatch::{push_constants, touch};
use crate::{Access, Binding, Dispatch, DispatchIndirect, Error, Hazards, Pipeline, Slice, Touch};
use ash::vk;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

/// How to record.
#[derive(Debug, Clone, Default)]
pub struct RecorderOptions {
    /// Name of the commands, for messages.
    pub label: String,
    /// Take the GPU time of each operation ([`Commands::timings`]).
    pub timestamps: bool,
    /// The commands may be submitted again while an earlier submission of them is still being executed.
    pub simultaneous: bool,
    /// Start a new submission when the costs told by [`Recorder::cost`] would exceed this sum.
    pub max_cost: Option<u64>,
}

/// Records operations in order. Each sees the results of those before it; barriers are put in where bytes overlap.
pub struct Recorder {
    commands: Commands,
    options: RecorderOptions,
    hazards: Hazards,
    /// Writes since the last barrier that indirect arguments were made to wait for.
    indirect: Hazards,
    held: HashSet<u64>,
    bound: Option<u64>,
    cost: u64,
    queries: u32,
}

type Stages = vk::PipelineStageFlags2;
type Accesses = vk::AccessFlags2;

impl Device {
    /// Starts recording.
    pub fn recorder(&self, options: &RecorderOptions) -> Result<Recorder, Error> {
        let d = &self.inner;
        d.alive(&options.label)?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(d.queue_family);
        // SAFETY: the family is the queue's; `Commands` destroys the pool.
        let pool = d.check(&options.label, unsafe { d.raw.create_command_pool(&info, None) })?;
        let commands = Commands {
            device: self.clone(),
            label: options.label.clone(),
            pool,
            parts: Vec::new(),
            query_pools: Vec::new(),
            stamps: Vec::new(),
            buffers: Vec::new(),
            pipelines: Vec::new(),
            stats: Default::default(),
            simultaneous: options.simultaneous,
            last: AtomicU64::new(0),
        };
        let mut options = options.clone();
        options.timestamps &= d.capabilities.features.timestamps;
        let mut recorder = Recorder {
            commands,
            options,
            hazards: Hazards::default(),
            indirect: Hazards::default(),
            held: HashSet::new(),
            bound: None,
            cost: 0,
            queries: 0,
        };
        recorder.begin()?;
        Ok(recorder)
    }
}

impl Recorder {
    /// Records a dispatch.
    ///
    /// # Errors
    /// [`Error::Record`] when bindings, params or group counts do not fit the pipeline or the device.
    pub fn dispatch(&mut self, op: &Dispatch<'_>) -> Result<(), Error> {
        let push = push_constants(op.pipeline, op.bindings, op.params, op.label)?;
        let limits = self.commands.device.capabilities().limits.group_count;
        for (axis, (&count, &limit)) in "xyz".chars().zip(op.groups.iter().zip(&limits)) {
            if count > limit {
                let reason = format!(
                    "{count} workgroups in {axis}, the device allows {limit}\nhint: fold the rows into another dimension"
                );
                return Err(Error::Record { op: op.label.into(), reason });
            }
        }
        if op.groups.contains(&0) {
            return Ok(());
        }
        let touches: Vec<Touch> = op.bindings.iter().map(|b| touch(b.slice, b.access)).collect();
        self.before(&touches);
        let raw = self.bind(op.pipeline, op.bindings, &push);
        let [x, y, z] = op.groups;
        // SAFETY: recording, a pipeline is bound, the counts are within the limits.
        unsafe { self.raw().cmd_dispatch(raw, x, y, z) };
        self.commands.stats.dispatches += 1;
        self.after(op.label)
    }

    /// Records a dispatch whose workgroup counts are read from a buffer when it is executed.
    ///
    /// # Errors
    /// [`Error::Record`] when bindings or params do not fit the pipeline.
    pub fn dispatch_indirect(&mut self, op: &DispatchIndirect<'_>) -> Result<(), Error> {
        let push = push_constants(op.pipeline, op.bindings, op.params, op.label)?;
        if op.groups.len() < 12 || !op.groups.offset().is_multiple_of(4) {
            let reason = "the workgroup counts need 12 bytes at a multiple of 4".into();
            return Err(Error::Record { op: op.label.into(), reason });
        }
        let counts = touch(op.groups, Access::Read);
        let mut touches: Vec<Touch> = op.bindings.iter().map(|b| touch(b.slice, b.access)).collect();
        if self.indirect.conflicts(std::slice::from_ref(&counts)) {
            self.barrier(Stages::DRAW_INDIRECT, Accesses::INDIRECT_COMMAND_READ);
            self.indirect.clear();
        }
        touches.push(counts);
        self.before(&touches);
        self.hold(op.groups);
        let raw = self.bind(op.pipeline, op.bindings, &push);
        // SAFETY: recording, a pipeline is bound, the 12 bytes lie in a buffer with the indirect usage.
        unsafe { self.raw().cmd_dispatch_indirect(raw, op.groups.buffer().inner.raw, op.groups.offset()) };
        self.commands.stats.dispatches += 1;
        self.after(op.label)
    }

    /// Copies all of a slice to another of the same length.
    ///
    /// # Errors
    /// [`Error::Record`] when the lengths differ or the two overlap.
    pub fn copy(&mut self, from: &Slice, to: &Slice) -> Result<(), Error> {
        let label = "copy";
        let same = from.buffer().inner.id == to.buffer().inner.id;
        let (a, b) = (from.range(), to.range());
        let reason = if from.len() != to.len() {
            format!("{} bytes to {} of `{}`", from.len(), to.len(), to.buffer().label())
        } else if same && a.start < b.end && b.start < a.end {
            format!("source and target overlap in `{}`", to.buffer().label())
        } else if from.is_empty() {
            return Ok(());
        } else {
            self.before(&[touch(from, Access::Read), touch(to, Access::Write)]);
            self.hold(from);
            self.hold(to);
            let region = [vk::BufferCopy { src_offset: a.start, dst_offset: b.start, size: from.len() }];
            let (from, to) = (from.buffer().inner.raw, to.buffer().inner.raw);
            // SAFETY: recording; both ranges lie inside their buffers and do not overlap.
            unsafe { self.raw().cmd_copy_buffer(self.current(), from, to, &region) };
            self.commands.stats.transfers += 1;
            return self.after(label);
        };
        Err(Error::Record { op: label.into(), reason })
    }

    /// Fills a slice with a 32-bit value; offset and length must be multiples of 4.
    ///
    /// # Errors
    /// [`Error::Record`] when they are not.
    pub fn fill(&mut self, to: &Slice, value: u32) -> Result<(), Error> {
        let label = "fill";
        if to.is_empty() {
            return Ok(());
        }
        if !to.offset().is_multiple_of(4) || !to.len().is_multiple_of(4) {
            let name = to.buffer().label();
            let reason = format!("{} bytes at {} of `{name}` are not whole words", to.len(), to.offset());
            return Err(Error::Record { op: label.into(), reason });
        }
        self.before(&[touch(to, Access::Write)]);
        self.hold(to);
        let (buffer, offset, len) = (to.buffer().inner.raw, to.offset(), to.len());
        // SAFETY: recording; the range is whole words inside the buffer.
        unsafe { self.raw().cmd_fill_buffer(self.current(), buffer, offset, len, value) };
        self.commands.stats.transfers += 1;
        self.after(label)
    }

    /// Tells the estimated cost of the next operation (any unit, such as nanoseconds). When the sum since the last
    /// split would exceed `max_cost`, a new submission begins here, so that none keeps the device busy for too long.
    pub fn cost(&mut self, cost: u64) -> Result<(), Error> {
        let sum = self.cost.saturating_add(cost);
        self.cost = match self.options.max_cost {
            Some(max) if sum > max && self.cost > 0 => {
                self.end()?;
                self.begin()?;
                cost
            }
            _ => sum,
        };
        Ok(())
    }

    /// Ends recording.
    pub fn finish(mut self) -> Result<Commands, Error> {
        self.end()?;
        Ok(self.commands)
    }

    fn raw(&self) -> &ash::Device {
        &self.commands.device.inner.raw
    }

    /// The command buffer being recorded. `begin` has made one.
    fn current(&self) -> vk::CommandBuffer {
        self.commands.parts.last().copied().unwrap_or_default()
    }

    fn begin(&mut self) -> Result<(), Error> {
        let d = &self.commands.device.inner;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.commands.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is this recorder's alone.
        let part = d.check(&self.options.label, unsafe { d.raw.allocate_command_buffers(&info) })?[0];
        let flags = match self.options.simultaneous {
            true => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
            false => vk::CommandBufferUsageFlags::empty(),
        };
        // SAFETY: a fresh command buffer.
        let begun =
            unsafe { d.raw.begin_command_buffer(part, &vk::CommandBufferBeginInfo::default().flags(flags)) };
        d.check(&self.options.label, begun)?;
        self.commands.parts.push(part);
        self.commands.stats.parts += 1;
        self.bound = None;
        self.hazards.clear();
        self.indirect.clear();
        // Everything of earlier submissions comes before everything in here.
        self.memory_barrier(
            (Stages::ALL_COMMANDS, Accesses::MEMORY_WRITE),
            (Stages::ALL_COMMANDS, Accesses::MEMORY_READ | Accesses::MEMORY_WRITE),
        );
        if self.options.timestamps {
            self.stamp()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        // What was written becomes visible to the host once the submission's semaphore is.
        self.memory_barrier(
            (Stages::ALL_COMMANDS, Accesses::MEMORY_WRITE),
            (Stages::HOST, Accesses::HOST_READ),
        );
        let d = &self.commands.device.inner;
        // SAFETY: recording.
        d.check(&self.options.label, unsafe { d.raw.end_command_buffer(self.current()) })
    }

    /// Puts in the barrier that an operation needs.
    fn before(&mut self, touches: &[Touch]) {
        if self.hazards.conflicts(touches) {
            self.barrier(Stages::NONE, Accesses::NONE);
        }
        self.hazards.note(touches);
        for t in touches.iter().filter(|t| t.access.writes()) {
            self.indirect.note(std::slice::from_ref(t));
        }
    }

    /// Orders all earlier dispatches and transfers before all later ones, and before the extra scope.
    fn barrier(&mut self, extra_stages: Stages, extra_accesses: Accesses) {
        self.hazards.clear();
        self.commands.stats.barriers += 1;
        let stages = Stages::COMPUTE_SHADER | Stages::ALL_TRANSFER;
        let writes = Accesses::SHADER_STORAGE_WRITE | Accesses::TRANSFER_WRITE;
        let reads = Accesses::SHADER_STORAGE_READ | Accesses::TRANSFER_READ;
        // Indirect counts that a later write replaces must have been read: their stage is a source too.
        self.memory_barrier(
            (stages | Stages::DRAW_INDIRECT, writes),
            (stages | extra_stages, writes | reads | extra_accesses),
        );
    }

    fn memory_barrier(&self, src: (Stages, Accesses), dst: (Stages, Accesses)) {
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(src.0)
            .src_access_mask(src.1)
            .dst_stage_mask(dst.0)
            .dst_access_mask(dst.1)];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: recording; synchronization2 is enabled.
        unsafe { self.raw().cmd_pipeline_barrier2(self.current(), &info) };
    }

    /// Binds pipeline and push constants, and keeps alive what they name.
    fn bind(&mut self, pipeline: &Pipeline, bindings: &[Binding<'_>], push: &[u8]) -> vk::CommandBuffer {
        bindings.iter().for_each(|b| self.hold(b.slice));
        if self.held.insert(pipeline.inner.id) {
            self.commands.pipelines.push(pipeline.clone());
        }
        let raw = self.current();
        let d = &self.commands.device.inner;
        if self.bound != Some(pipeline.inner.id) {
            self.bound = Some(pipeline.inner.id);
            // SAFETY: recording; the pipeline is alive and kept so.
            unsafe { d.raw.cmd_bind_pipeline(raw, vk::PipelineBindPoint::COMPUTE, pipeline.inner.raw) };
        }
        if !push.is_empty() {
            // SAFETY: recording; at most 128 bytes, a multiple of 4, within the layout's range.
            unsafe { d.raw.cmd_push_constants(raw, d.layout, vk::ShaderStageFlags::COMPUTE, 0, push) };
        }
        raw
    }

    fn hold(&mut self, slice: &Slice) {
        let buffer = &slice.buffer().inner;
        if self.held.insert(buffer.id) {
            self.commands.buffers.push(buffer.clone());
        }
    }

    fn after(&mut self, label: &str) -> Result<(), Error> {
        if self.options.timestamps {
            let end = self.stamp()?;
            self.commands.stamps.push(Stamp { label: label.into(), start: end - 1, end });
        }
        Ok(())
    }

    /// Writes a timestamp after everything recorded so far; returns its number.
    fn stamp(&mut self) -> Result<u32, Error> {
        let d = &self.commands.device.inner;
        let raw = self.current();
        let query = self.queries;
        if query.is_multiple_of(QUERIES) {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(QUERIES);
            // SAFETY: `Commands` destroys it.
            let pool = d.check(&self.options.label, unsafe { d.raw.create_query_pool(&info, None) })?;
            self.commands.query_pools.push(pool);
            // SAFETY: recording; the queries are written only after this, in this or later parts.
            unsafe { d.raw.cmd_reset_query_pool(raw, pool, 0, QUERIES) };
        }
        let pool = self.commands.query_pools[(query / QUERIES) as usize];
        // SAFETY: recording; the query was reset above and is written once an execution.
        unsafe { d.raw.cmd_write_timestamp2(raw, Stages::ALL_COMMANDS, pool, query % QUERIES) };
        self.queries += 1;
        Ok(query)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorder(`{}`)", self.options.label)
    }
}
