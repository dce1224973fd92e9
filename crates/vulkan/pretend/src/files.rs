//! The C library's calls on files. Those that name the card's node or its folders are answered here, all others by the system.
#![allow(clippy::missing_safety_doc)] // the contracts are those of the C library's functions

use crate::{card, requests, unanswered};
use libc::{
    AT_FDCWD, DIR, FILE, c_char, c_int, c_long, c_ulong, c_void, dirent64, mode_t, off_t, size_t, ssize_t,
    stat as Stat,
};
use std::ffi::CStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const NODE: &str = "/dev/dri/renderD128";
const FOLDER: &str = "/sys/dev/char/226:128";
const MAJOR: u32 = 226;
const MINOR: u32 = 128;

/// What a path of ours is.
enum Pretended {
    Node,
    /// A folder that lists the node.
    Nodes,
    Folder,
    File(String),
    Link(&'static str),
    Missing,
}
use Pretended::*;

/// What stands at a path, where it is ours.
fn at(path: *const c_char) -> Option<Pretended> {
    if path.is_null() {
        return None;
    }
    // SAFETY: paths are strings that end in NUL.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    if path.trim_end_matches('/') == "/dev/dri" {
        return Some(Nodes);
    }
    if path == NODE {
        return Some(Node);
    }
    if path.starts_with("/dev/dri/") {
        return Some(Missing);
    }
    let rest = path.strip_prefix(FOLDER)?;
    let (device, revision) = (card().device_id, card().pci_revision);
    Some(match rest.trim_matches('/') {
        "" | "device" | "device/drm/renderD128" => Folder,
        "device/drm" => Nodes,
        "subsystem" => Link("/sys/class/drm"),
        "device/subsystem" => Link("/sys/bus/pci"),
        "device/vendor" | "device/subsystem_vendor" => File("0x1002\n".into()),
        "device/device" => File(format!("{device:#06x}\n")),
        "device/subsystem_device" => File("0x0e36\n".into()),
        "device/revision" => File(format!("{revision:#04x}\n")),
        "uevent" => {
            File(format!("MAJOR={MAJOR}\nMINOR={MINOR}\nDEVNAME=dri/renderD128\nDEVTYPE=drm_minor\n"))
        }
        "device/uevent" => File(format!(
            "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:{device:04X}\nPCI_SUBSYS_ID=1002:0E36\nPCI_SLOT_NAME=0000:03:00.0\n"
        )),
        other => {
            unanswered(format_args!("`{FOLDER}/{other}`"));
            Missing
        }
    })
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// A raw system call; `errno` is set as the C library would.
macro_rules! system {
    ($number:ident $(, $arg:expr)*) => {{
        // SAFETY: the caller's arguments, handed on as they came.
        (unsafe { libc::syscall(libc::$number $(, $arg)*) }) as _
    }};
}

/// The C library's own function of a name, for what is no plain system call.
macro_rules! own {
    ($name:literal as $type:ty) => {{
        static FOUND: AtomicUsize = AtomicUsize::new(0);
        if FOUND.load(Relaxed) == 0 {
            // SAFETY: a name that ends in NUL.
            FOUND.store(unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) } as usize, Relaxed);
        }
        // SAFETY: the C library has this function, of this type.
        unsafe { std::mem::transmute::<usize, $type>(FOUND.load(Relaxed)) }
    }};
}

fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: all zeros are a valid `stat`.
    let mut st: Stat = unsafe { std::mem::zeroed() };
    let result: c_int = system!(SYS_fstat, c_long::from(fd), &raw mut st);
    (result == 0 && st.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(st.st_ino)
}

/// Inodes of the open nodes: files in memory that stand for them.
static OPEN_NODES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn is_node(fd: c_int) -> bool {
    let nodes = OPEN_NODES.lock().unwrap_or_else(|e| e.into_inner());
    !nodes.is_empty() && fd >= 0 && inode(fd).is_some_and(|i| nodes.contains(&i))
}

/// An open file in memory with this text.
pub fn plain_file(text: &str) -> c_int {
    let fd: c_int = system!(SYS_memfd_create, c"pretend".as_ptr(), libc::MFD_CLOEXEC);
    let _: ssize_t = system!(SYS_write, c_long::from(fd), text.as_ptr(), text.len());
    let _: off_t = system!(SYS_lseek, c_long::from(fd), 0 as c_long, 0 as c_long);
    fd
}

fn open_pretended(what: &Pretended) -> c_int {
    match what {
        File(text) => plain_file(text),
        Node => {
            let fd = plain_file("");
            OPEN_NODES.lock().unwrap_or_else(|e| e.into_inner()).extend(inode(fd));
            fd
        }
        _ => fail(libc::ENOENT),
    }
}

fn describe(to: *mut Stat, what: &Pretended) -> c_int {
    let mode = match what {
        Node => libc::S_IFCHR | 0o666,
        Nodes | Folder | Link(_) => libc::S_IFDIR | 0o755,
        File(_) => libc::S_IFREG | 0o444,
        Missing => return fail(libc::ENOENT),
    };
    // SAFETY: all zeros are a valid `stat`; the caller gave room for one.
    unsafe {
        *to = std::mem::zeroed();
        (*to).st_mode = mode;
        (*to).st_nlink = 1;
        (*to).st_ino = 4242;
        if matches!(what, Node) {
            (*to).st_rdev = libc::makedev(MAJOR, MINOR);
        }
    }
    0
}

fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    match at(path) {
        Some(what) => open_pretended(&what),
        None => system!(SYS_openat, c_long::from(folder), path, c_long::from(flags), mode as c_long),
    }
}

fn stat_at(path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
    match at(path) {
        Some(what) => describe(to, &what),
        None => system!(SYS_newfstatat, c_long::from(AT_FDCWD), path, to, c_long::from(flags)),
    }
}

fn stat_open(fd: c_int, to: *mut Stat) -> c_int {
    match is_node(fd) {
        true => describe(to, &Node),
        false => system!(SYS_fstat, c_long::from(fd), to),
    }
}

fn map(start: *mut c_void, n: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    let (mut flags, mut fd, mut offset) = (flags, fd, offset);
    if flags & libc::MAP_ANONYMOUS == 0 && is_node(fd) {
        flags = (flags & libc::MAP_FIXED) | libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        (fd, offset) = (-1, 0);
    }
    let [prot, flags, fd] = [prot, flags, fd].map(c_long::from);
    let mapped: usize = system!(SYS_mmap, start, n, prot, flags, fd, offset);
    mapped as *mut c_void
}

/// The exported functions: each is what the C library's is, and hands on to the function above that does the work.
macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            $body
        }
    )*};
}

exported! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open_at(AT_FDCWD, path, flags, mode);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        open_at(AT_FDCWD, path, flags | libc::O_LARGEFILE, mode);
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        open_at(folder, path, flags, mode);
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        open_at(folder, path, flags | libc::O_LARGEFILE, mode);
    fn __open_2(path: *const c_char, flags: c_int) -> c_int = open_at(AT_FDCWD, path, flags, 0);
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int = open_at(AT_FDCWD, path, flags | libc::O_LARGEFILE, 0);
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = open_stream(path, mode);
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = open_stream(path, mode);
    fn stat(path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, 0);
    fn stat64(path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, 0);
    fn lstat(path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, libc::AT_SYMLINK_NOFOLLOW);
    fn lstat64(path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, libc::AT_SYMLINK_NOFOLLOW);
    fn __xstat(_version: c_int, path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, 0);
    fn __xstat64(_version: c_int, path: *const c_char, to: *mut Stat) -> c_int = stat_at(path, to, 0);
    fn fstat(fd: c_int, to: *mut Stat) -> c_int = stat_open(fd, to);
    fn fstat64(fd: c_int, to: *mut Stat) -> c_int = stat_open(fd, to);
    fn __fxstat(_version: c_int, fd: c_int, to: *mut Stat) -> c_int = stat_open(fd, to);
    fn __fxstat64(_version: c_int, fd: c_int, to: *mut Stat) -> c_int = stat_open(fd, to);
    fn access(path: *const c_char, mode: c_int) -> c_int = match at(path) {
        Some(Missing) => fail(libc::ENOENT),
        Some(_) => 0,
        None => system!(SYS_faccessat, c_long::from(AT_FDCWD), path, c_long::from(mode)),
    };
    fn readlink(path: *const c_char, to: *mut c_char, n: size_t) -> ssize_t = read_link(path, to, n);
    fn __readlink_chk(path: *const c_char, to: *mut c_char, n: size_t, _room: size_t) -> ssize_t = read_link(path, to, n);
    fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char = real_path(path, to);
    fn __realpath_chk(path: *const c_char, to: *mut c_char, _room: size_t) -> *mut c_char = real_path(path, to);
    fn opendir(path: *const c_char) -> *mut DIR = open_folder(path);
    fn readdir(folder: *mut DIR) -> *mut dirent64 = read_folder(folder);
    fn readdir64(folder: *mut DIR) -> *mut dirent64 = read_folder(folder);
    fn closedir(folder: *mut DIR) -> c_int = close_folder(folder);
    fn mmap(start: *mut c_void, n: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void =
        map(start, n, prot, flags, fd, offset);
    fn mmap64(start: *mut c_void, n: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void =
        map(start, n, prot, flags, fd, offset);
    fn ioctl(fd: c_int, request: c_ulong, arg: *mut u8) -> c_int = control(fd, request, arg);
}

fn open_stream(path: *const c_char, mode: *const c_char) -> *mut FILE {
    let Some(what) = at(path) else {
        let open = own!(c"fopen" as unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE);
        // SAFETY: the caller's arguments.
        return unsafe { open(path, mode) };
    };
    match open_pretended(&what) {
        -1 => std::ptr::null_mut(),
        // SAFETY: a descriptor that was just opened, and the caller's mode.
        fd => unsafe { libc::fdopen(fd, mode) },
    }
}

fn read_link(path: *const c_char, to: *mut c_char, n: size_t) -> ssize_t {
    match at(path) {
        Some(Link(target)) => {
            let n = target.len().min(n);
            // SAFETY: the caller gave room for `n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, n) };
            n as ssize_t
        }
        Some(_) => fail(libc::EINVAL) as ssize_t,
        None => system!(SYS_readlinkat, c_long::from(AT_FDCWD), path, to, n),
    }
}

/// Our paths are their own real paths; links are what they point at.
fn real_path(path: *const c_char, to: *mut c_char) -> *mut c_char {
    let own = own!(c"realpath" as unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char);
    let target = match at(path) {
        // SAFETY: the caller's arguments.
        None => return unsafe { own(path, to) },
        Some(Missing) => {
            fail(libc::ENOENT);
            return std::ptr::null_mut();
        }
        Some(Link(target)) => target.as_bytes(),
        // SAFETY: `at` found a string.
        Some(_) => unsafe { CStr::from_ptr(path) }.to_bytes(),
    };
    // SAFETY: a place of PATH_MAX bytes, the caller's or a new one that the caller frees.
    unsafe {
        let to = if to.is_null() { libc::calloc(1, libc::PATH_MAX as size_t).cast() } else { to };
        std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, target.len());
        *to.add(target.len()) = 0;
        to
    }
}

/// A folder that lists the node, once.
struct Listing {
    read: bool,
    entry: dirent64,
}

/// Addresses of the listings that are open.
static LISTINGS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn is_listing(folder: *mut DIR) -> bool {
    LISTINGS.lock().unwrap_or_else(|e| e.into_inner()).contains(&(folder as usize))
}

fn open_folder(path: *const c_char) -> *mut DIR {
    match at(path) {
        Some(Nodes) => {
            // SAFETY: all zeros are a valid entry.
            let entry = unsafe { std::mem::zeroed() };
            let listing = Box::into_raw(Box::new(Listing { read: false, entry }));
            LISTINGS.lock().unwrap_or_else(|e| e.into_inner()).push(listing as usize);
            listing.cast()
        }
        Some(_) => {
            fail(libc::ENOENT);
            std::ptr::null_mut()
        }
        None => {
            let own = own!(c"opendir" as unsafe extern "C" fn(*const c_char) -> *mut DIR);
            // SAFETY: the caller's argument.
            unsafe { own(path) }
        }
    }
}

fn read_folder(folder: *mut DIR) -> *mut dirent64 {
    if !is_listing(folder) {
        let own = own!(c"readdir64" as unsafe extern "C" fn(*mut DIR) -> *mut dirent64);
        // SAFETY: the caller's argument.
        return unsafe { own(folder) };
    }
    // SAFETY: one of our listings, which a single thread reads at a time as with any folder.
    let listing = unsafe { &mut *folder.cast::<Listing>() };
    if std::mem::replace(&mut listing.read, true) {
        return std::ptr::null_mut();
    }
    listing.entry.d_ino = 4242;
    listing.entry.d_type = libc::DT_CHR;
    for (to, from) in listing.entry.d_name.iter_mut().zip(b"renderD128\0") {
        *to = *from as c_char;
    }
    &raw mut listing.entry
}

fn close_folder(folder: *mut DIR) -> c_int {
    if !is_listing(folder) {
        let own = own!(c"closedir" as unsafe extern "C" fn(*mut DIR) -> c_int);
        // SAFETY: the caller's argument.
        return unsafe { own(folder) };
    }
    LISTINGS.lock().unwrap_or_else(|e| e.into_inner()).retain(|&l| l != folder as usize);
    // SAFETY: ours, made by `Box::into_raw`, and no longer in the list.
    drop(unsafe { Box::from_raw(folder.cast::<Listing>()) });
    0
}

fn control(fd: c_int, request: c_ulong, arg: *mut u8) -> c_int {
    let of_drm = (request >> 8) & 0xff == c_ulong::from(b'd');
    if !of_drm || !is_node(fd) {
        return system!(SYS_ioctl, c_long::from(fd), request, arg);
    }
    match requests::answer((request & 0xff) as u32, arg) {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}
