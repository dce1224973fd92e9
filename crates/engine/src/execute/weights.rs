//! Weights to the device: packed into planes on all cores while the previous piece is being copied.

use crate::{Error, LoadProgress};
use std::borrow::Cow;
use zinc_gguf::Gguf;
use zinc_plan::{Op, Plan, Scalar, Weight};
use zinc_vulkan::{Arena, Device, MemoryKind, Slice, StagingRing};

/// Bytes of host memory that uploads go through.
pub const STAGING_BYTES: u64 = 64 << 20;
/// Bytes that are packed at a time.
const PIECE_BYTES: usize = 8 << 20;

/// Which weights are read as f32 vectors: everything but the matrices of products and the embedding table.
pub fn vectors(plan: &Plan) -> Vec<bool> {
    let mut vector = vec![false; plan.weights.len()];
    for node in &plan.ops {
        let ids = match &node.op {
            Op::Embed { .. } | Op::Linear { .. } | Op::ExpertLinear { .. } => vec![],
            Op::Scale { by: Scalar::Weight(w), .. } => vec![*w],
            op => op.weights(),
        };
        ids.iter().for_each(|w| vector[w.index()] = true);
    }
    vector
}

/// Allocates the weights and fills them. Returns a slice for each weight of the plan.
pub fn upload(
    device: &Device,
    gguf: &Gguf,
    plan: &Plan,
    max_chunk: u64,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<Slice>, Error> {
    let vector = vectors(plan);
    let (arena_plan, places) = crate::memory::place_weights(plan, |i| vector[i], max_chunk)?;
    let arena = Arena::new(device, MemoryKind::Device, &arena_plan)?;
    let total = places.iter().map(|p| p.len).sum();
    let mut ring = StagingRing::new(device, STAGING_BYTES.min(total))?;
    let mut done = 0;
    let mut slices = Vec::with_capacity(places.len());
    for ((weight, place), vector) in plan.weights.iter().zip(places).zip(vector) {
        let slice = arena.slice(place)?;
        let bytes = bytes(gguf, weight)?;
        let (src_row, dst_row) = match vector {
            true => (weight.row_bytes(), weight.k as usize * 4),
            false => (weight.row_bytes(), weight.format.device_row_bytes(weight.k as usize)),
        };
        let rows_at_once = (PIECE_BYTES / dst_row).max(1);
        let mut packed = vec![0u8; dst_row * rows_at_once.min(weight.rows())];
        for (i, rows) in bytes.chunks(src_row * rows_at_once).enumerate() {
            let packed = &mut packed[..rows.len() / src_row * dst_row];
            pack(weight, vector, rows, src_row, packed, dst_row);
            let to = slice.slice((i * rows_at_once * dst_row) as u64, packed.len() as u64)?;
            ring.upload(&to, packed)?;
            done += packed.len() as u64;
            progress(LoadProgress::Weights { done, total });
        }
        slices.push(slice);
    }
    ring.flush()?;
    Ok(slices)
}

/// A weight's bytes; the model crate has checked that its tensors are there and have these shapes.
fn bytes<'a>(gguf: &'a Gguf, weight: &Weight) -> Result<Cow<'a, [u8]>, Error> {
    let mut tensors = weight.tensors.iter().filter_map(|name| gguf.tensor(name)).map(|t| gguf.data(t));
    let found = match &weight.tensors[..] {
        [_] => Cow::Borrowed(tensors.next().unwrap_or_default()),
        _ => Cow::Owned(tensors.collect::<Vec<_>>().concat()),
    };
    let expected = weight.row_bytes() * weight.rows();
    match found.len() == expected {
        true => Ok(found),
        false => Err(Error::Option(format!("`{}` does not have {expected} bytes", weight.name()))),
    }
}

/// Packs whole rows, shared out over the processor's cores.
fn pack(weight: &Weight, vector: bool, src: &[u8], src_row: usize, dst: &mut [u8], dst_row: usize) {
    let rows = src.len() / src_row;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(16);
    let share = rows.div_ceil(threads).max(1);
    let k = weight.k as usize;
    let part = |src: &[u8], dst: &mut [u8]| {
        for (from, to) in src.chunks_exact(src_row).zip(dst.chunks_exact_mut(dst_row)) {
            if vector {
                let mut values = vec![0.0f32; k];
                weight.format.decode_row(from, &mut values);
                to.copy_from_slice(bytemuck::cast_slice(&values));
            } else {
                weight.format.pack_row(from, k, to);
            }
        }
    };
    if src.len() < 1 << 18 {
        return part(src, dst); // not worth a thread
    }
    std::thread::scope(|scope| {
        for (src, dst) in src.chunks(share * src_row).zip(dst.chunks_mut(share * dst_row)) {
            scope.spawn(move || part(src, dst));
        }
    });
}
