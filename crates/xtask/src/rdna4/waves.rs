//! How many waves a SIMD of RDNA3 or RDNA4 keeps: its registers, its share of the shared memory.
//!
//! A SIMD has 1536 VGPRs of a wave32, handed out in 24s; a wave64 takes them in pairs, so 768 in 12s. It keeps at most 16 waves. A work-group
//! processor (4 SIMDs) has 128 KiB of shared memory. (As the driver reports them; Navi 33's smaller file is not among the cards here.)

const MAX_WAVES: u32 = 16;
const LDS_BYTES: u32 = 128 << 10;
const SIMDS: u32 = 4;

/// Waves of a SIMD by registers alone. `lanes` is 32 or 64.
pub fn by_vgprs(vgprs: u32, lanes: u32) -> u32 {
    let (file, step) = if lanes == 64 { (768, 12) } else { (1536, 24) };
    (file / vgprs.max(1).next_multiple_of(step)).min(MAX_WAVES)
}

/// Waves of a SIMD by registers and by the shared memory of workgroups of `invocations`.
pub fn kept(vgprs: u32, lanes: u32, lds: u32, invocations: u32) -> u32 {
    let waves = by_vgprs(vgprs, lanes);
    if lds == 0 {
        return waves;
    }
    let groups = LDS_BYTES / lds;
    let of_group = invocations.div_ceil(lanes);
    waves.min((groups * of_group / SIMDS).max(u32::from(groups > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_handed_out_in_steps() {
        // Pairs of registers and waves as RADV 26.1 gives them for gfx1201.
        for (vgprs, waves) in
            [(48, 16), (60, 12), (72, 10), (84, 9), (96, 8), (97, 7), (108, 7), (120, 6), (256, 2)]
        {
            assert_eq!(by_vgprs(vgprs, 64), waves, "{vgprs} in wave64");
        }
        for (vgprs, waves) in [(24, 16), (96, 16), (97, 12), (120, 12), (144, 10), (256, 5)] {
            assert_eq!(by_vgprs(vgprs, 32), waves, "{vgprs} in wave32");
        }
        assert_eq!(by_vgprs(0, 64), 16);
    }

    #[test]
    fn shared_memory_limits_workgroups() {
        assert_eq!(kept(48, 64, 0, 256), 16);
        // 8 workgroups of 4 waves on 4 SIMDs.
        assert_eq!(kept(48, 64, 16 << 10, 256), 8);
        assert_eq!(kept(120, 64, 16 << 10, 256), 6);
        // The whole memory for one workgroup of 8 waves.
        assert_eq!(kept(48, 64, 128 << 10, 512), 2);
        assert_eq!(kept(48, 64, 65 << 10, 64), 1);
    }
}
