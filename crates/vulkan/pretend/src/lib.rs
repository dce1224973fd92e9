//! A library to preload that makes one amdgpu render node appear to exist, so that RADV lists a card that is not there: its compiler
//! can be asked what it makes of a shader, and a program's whole host path runs against the card's own limits.
//!
//! Nothing executes. Buffers are anonymous memory that reads as zeros until the host writes it; submissions are accepted, dropped, and
//! finished at once.
//!
//! - `PRETEND_GPU` names the card: gfx1201, gfx1200, gfx1100 or gfx1102.
//! - `PRETEND_DEBUG=1` names unanswered requests on standard error.
//!
//! It answers what the kernel's public headers `drm.h` and `amdgpu_drm.h` define (`requests.rs`), and takes over the C library's calls on
//! files for `/dev/dri` and one folder of `/sys` alone (`files.rs`). Everything else goes to the system as raw calls.
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod files;
mod requests;

use std::sync::OnceLock;

/// A card. The figures are those of public device tables; heaps, clocks and the address configuration change no compiled shader.
struct Card {
    name: &'static str,
    device_id: u32,
    pci_revision: u32,
    /// `AMDGPU_FAMILY_*`.
    family: u32,
    external_revision: u32,
    /// Versions of the graphics and DMA blocks.
    graphics: [u32; 3],
    dma: [u32; 3],
    shader_engines: u32,
    /// Compute units of each of a shader engine's two arrays.
    units: u32,
    render_backends: u32,
    address_config: u32,
    cache_blocks: u32,
    /// Physical VGPRs of a SIMD, in wave32 units.
    vgprs: u32,
    bus_bits: u32,
    l2_kib: u32,
    l3_mib: u64,
    memory_gib: u64,
    clock_mhz: u64,
    memory_mhz: u64,
}

const FAMILY_GC_11: u32 = 145;
const FAMILY_GC_12: u32 = 152;

#[rustfmt::skip]
const CARDS: [Card; 4] = [
    // Radeon AI PRO R9700: Navi 48
    Card {
        name: "gfx1201", device_id: 0x7551, pci_revision: 0xc0, family: FAMILY_GC_12, external_revision: 0x51,
        graphics: [12, 0, 1], dma: [7, 0, 1], shader_engines: 4, units: 8, render_backends: 16, address_config: 0x0820_0545,
        cache_blocks: 32, vgprs: 1536, bus_bits: 256, l2_kib: 8192, l3_mib: 64, memory_gib: 32, clock_mhz: 2920, memory_mhz: 1258,
    },
    // Radeon RX 9060 XT: Navi 44
    Card {
        name: "gfx1200", device_id: 0x7590, pci_revision: 0xc0, family: FAMILY_GC_12, external_revision: 0x41,
        graphics: [12, 0, 0], dma: [7, 0, 0], shader_engines: 2, units: 8, render_backends: 8, address_config: 0x0820_0444,
        cache_blocks: 16, vgprs: 1536, bus_bits: 128, l2_kib: 4096, l3_mib: 32, memory_gib: 16, clock_mhz: 3130, memory_mhz: 1258,
    },
    // Radeon RX 7900 XTX: Navi 31
    Card {
        name: "gfx1100", device_id: 0x744c, pci_revision: 0xc8, family: FAMILY_GC_11, external_revision: 0x01,
        graphics: [11, 0, 0], dma: [6, 0, 0], shader_engines: 6, units: 8, render_backends: 24, address_config: 0x0000_0545,
        cache_blocks: 24, vgprs: 1536, bus_bits: 384, l2_kib: 6144, l3_mib: 96, memory_gib: 24, clock_mhz: 2500, memory_mhz: 1249,
    },
    // Radeon RX 7600: Navi 33, the small register file
    Card {
        name: "gfx1102", device_id: 0x7480, pci_revision: 0xcf, family: FAMILY_GC_11, external_revision: 0x10,
        graphics: [11, 0, 2], dma: [6, 0, 2], shader_engines: 2, units: 8, render_backends: 8, address_config: 0x0000_0444,
        cache_blocks: 8, vgprs: 1024, bus_bits: 128, l2_kib: 2048, l3_mib: 32, memory_gib: 8, clock_mhz: 2600, memory_mhz: 1124,
    },
];

/// The card that `PRETEND_GPU` names. The process ends where it names none: without its card the driver would only say that there is none.
fn card() -> &'static Card {
    static CARD: OnceLock<&'static Card> = OnceLock::new();
    CARD.get_or_init(|| {
        let wanted = std::env::var("PRETEND_GPU").unwrap_or_default();
        CARDS.iter().find(|c| c.name == wanted).unwrap_or_else(|| {
            let names: Vec<&str> = CARDS.iter().map(|c| c.name).collect();
            eprintln!("PRETEND_GPU: no card `{wanted}`\nhint: one of {}", names.join(", "));
            std::process::exit(2)
        })
    })
}

/// Says on standard error what was not answered, where that is wished.
fn unanswered(what: std::fmt::Arguments<'_>) {
    if std::env::var_os("PRETEND_DEBUG").is_some() {
        eprintln!("pretend: {what} is not answered");
    }
}
