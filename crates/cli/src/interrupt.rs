//! Ctrl-C and SIGTERM end a generation, which then reports what it did; a second one ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// Exit code after a second interrupt, as shells report SIGINT.
const KILLED: i32 = 130;

/// Watches for interrupts from now on; an earlier one is forgotten. Without a handler (some sandboxes) the system's own stays.
pub fn watch() {
    INTERRUPTED.store(false, Ordering::SeqCst);
    INSTALLED.call_once(|| {
        let _ = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::SeqCst) {
                std::process::exit(KILLED);
            }
        });
    });
}

/// Whether there was an interrupt since [`watch`].
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
